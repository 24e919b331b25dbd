package peer

import (
	"io"

	"github.com/seedqueue/sq/proto/frame"
)

// bodies are those of a frame's messages, one behind the other. What of one cannot be read is made up with zeros, which no checksum covers: a
// bad sector costs its message, not the connection and all that is on it.
type bodies struct {
	parts  []frame.Body
	size   int
	failed func(error) // hears of a body that could not be read
}

func (b *bodies) add(part frame.Body) {
	b.parts = append(b.parts, part)
	b.size += part.Len()
}

// Len implements frame.Body.
func (b *bodies) Len() int { return b.size }

// WriteTo implements frame.Body.
func (b *bodies) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, part := range b.parts {
		n, err := part.WriteTo(w)
		total += n
		if missing := int64(part.Len()) - n; missing > 0 {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			// Where it was the connection that failed, this fails too.
			padded, broken := io.CopyN(w, zeros{}, missing)
			total += padded
			if broken != nil {
				return total, err //nolint:wrapcheck // the connection's end.
			}
			b.failed(err)
		}
	}
	return total, nil
}

// Close implements frame.Body.
func (b *bodies) Close() error {
	for _, part := range b.parts {
		_ = part.Close() // what it held is released; nothing to report
	}
	b.parts = nil
	return nil
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
