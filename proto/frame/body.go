package frame

import (
	"io"
	"net"
)

// Body is what follows a message. The connection calls WriteTo at most once and Close exactly once, also where nothing was written.
type Body interface {
	// Len tells how many bytes WriteTo writes.
	Len() int
	// WriteTo writes the body to a connection. On plain TCP w is the *net.TCPConn, so that a file section can use sendfile.
	WriteTo(w io.Writer) (int64, error)
	// Close releases what the body holds.
	Close() error
}

// inMemory gives the content of a body that lies in memory, nil of any other.
func inMemory(body Body) [][]byte {
	switch b := body.(type) {
	case *bytesBody:
		return b.slices
	case *Buffer:
		b.whole[0] = b.data
		return b.whole[:]
	default:
		return nil
	}
}

// Bytes makes a Body of slices, which must not change until it is closed.
func Bytes(slices ...[]byte) Body { return BytesFunc(nil, slices...) }

// BytesFunc makes a Body of slices and calls release when they are not needed any more.
func BytesFunc(release func(), slices ...[]byte) Body {
	return &bytesBody{slices: slices, release: release}
}

type bytesBody struct {
	slices  [][]byte
	release func()
}

func (b *bytesBody) Len() int {
	n := 0
	for _, s := range b.slices {
		n += len(s)
	}
	return n
}

func (b *bytesBody) WriteTo(w io.Writer) (int64, error) {
	buffers := net.Buffers(append([][]byte(nil), b.slices...))
	return buffers.WriteTo(w)
}

func (b *bytesBody) Close() error {
	if b.release != nil {
		b.release()
		b.release = nil
	}
	return nil
}
