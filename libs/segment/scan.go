package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Place is where a batch begins.
type Place struct {
	Offset   partition.Offset
	Position int64
	// Chain is the chain word that the batch carries, unless Unchained is set: then it is not known, and the first batch found says it.
	Chain     uint64
	Unchained bool
}

// ErrFrame is wrapped by the error about a place where the next batch of the segment should stand and does not.
var ErrFrame = errors.New("no batch of this segment")

// Read-ahead of a Scanner: in bodies it reads everything, in headers it jumps.
const (
	scanBytes = 256 << 10
	walkBytes = 16 << 10
)

// Scanner reads the batches of one segment, one behind the other, and stops at the first place that does not hold the next one. It never
// looks for a batch further on. A Scanner that was Reset keeps its buffer.
type Scanner struct {
	r    io.ReaderAt
	size int64
	base partition.Offset
	tag  uint64
	// checkFrom is the position from which bodies are read and checked; below, only headers are.
	checkFrom int64

	at       Place // behind the current batch
	header   batch.Header
	position int64
	msg      []byte // the current batch: whole, or its header
	err      error

	buffer   []byte
	bufferAt int64 // position of buffer[0]
}

// Reset points the scanner at the batches of a segment from a place on. size is how many bytes of r may belong to the segment. Bodies below
// checkFrom are neither read nor checked.
func (s *Scanner) Reset(r io.ReaderAt, size int64, base partition.Offset, tag uint64, from Place, checkFrom int64) {
	*s = Scanner{r: r, size: size, base: base, tag: tag, at: from, checkFrom: checkFrom, buffer: s.buffer[:0]}
}

// Next goes to the next batch. It returns false at the end or at a bad place; Err tells which.
func (s *Scanner) Next() bool {
	if s.err != nil || s.at.Position >= s.size {
		return false
	}
	s.err = s.next()
	return s.err == nil
}

func (s *Scanner) next() error {
	p := s.at.Position
	whole := p >= s.checkFrom
	head, err := s.load(p, batch.HeaderBytes, whole)
	if err != nil {
		return err
	}
	h, err := batch.ParseHeader(head)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if err := s.fits(&h); err != nil {
		return err
	}
	if int64(h.Size) > s.size-p {
		return fmt.Errorf("%w: batch of %d bytes, %d are left", ErrFrame, h.Size, s.size-p)
	}
	msg := head
	if whole {
		if msg, err = s.load(p, h.Size, true); err != nil {
			return err
		}
	}
	s.header, s.position, s.msg = h, p, msg
	if whole {
		if err := batch.CheckBody(msg); err != nil {
			return &bodyError{err}
		}
	}
	s.advance()
	return nil
}

// bodyError says that only the body is bad: the header is the one that belongs here.
type bodyError struct{ err error }

func (e *bodyError) Error() string   { return ErrFrame.Error() + ": " + e.err.Error() }
func (e *bodyError) Unwrap() []error { return []error{ErrFrame, e.err} }

// advance goes behind the batch whose header was accepted.
func (s *Scanner) advance() {
	s.at = Place{Offset: partition.Offset(s.header.NextOffset()), Position: s.position + int64(s.header.Size)}
	// What follows a rewritten batch has the chain of the one that was here before compaction.
	if s.at.Unchained = s.header.Flags&batch.FlagRewritten != 0; !s.at.Unchained {
		s.at.Chain = batch.NextChain(s.msg)
	}
}

// fits tells whether a header is the one that belongs at the current place.
func (s *Scanner) fits(h *batch.Header) error {
	switch {
	case h.SegmentBase != uint64(s.base) || h.PartitionTag != s.tag:
		return fmt.Errorf("%w: batch of segment %d, partition tag %#x", ErrFrame, h.SegmentBase, h.PartitionTag)
	case h.BaseOffset != uint64(s.at.Offset):
		return fmt.Errorf("%w: batch has offset %d, expected %d", ErrFrame, h.BaseOffset, s.at.Offset)
	case !s.at.Unchained && h.Chain != s.at.Chain:
		return fmt.Errorf("%w: batch %d has chain %#x, expected %#x", ErrFrame, h.BaseOffset, h.Chain, s.at.Chain)
	}
	return nil
}

// Header gives the current batch's header; valid until the next call of Next or Reset.
func (s *Scanner) Header() *batch.Header { return &s.header }

// Message gives the current batch, or only its header below checkFrom; valid until the next call of Next or Reset.
func (s *Scanner) Message() []byte { return s.msg }

// Position tells where the current batch begins.
func (s *Scanner) Position() int64 { return s.position }

// Place is behind the current batch: where the next one belongs.
func (s *Scanner) Place() Place { return s.at }

// Err tells why Next returned false: nil at the end of the bytes, else an error that wraps ErrFrame, or the file's own error.
func (s *Scanner) Err() error { return s.err }

// load gives n bytes at p, from the buffer where they are in it.
func (s *Scanner) load(p int64, n int, ahead bool) ([]byte, error) {
	if p+int64(n) > s.size {
		return nil, fmt.Errorf("%w: %w: %d bytes are left", ErrFrame, batch.ErrShort, s.size-p)
	}
	if from := p - s.bufferAt; from >= 0 && from+int64(n) <= int64(len(s.buffer)) {
		return s.buffer[from : from+int64(n)], nil
	}
	want := max(n, walkBytes)
	if ahead {
		want = max(n, scanBytes)
	}
	want = int(min(int64(want), s.size-p))
	if cap(s.buffer) < want {
		s.buffer = make([]byte, want)
	}
	got, err := s.r.ReadAt(s.buffer[:want], p)
	s.buffer, s.bufferAt = s.buffer[:got], p
	if got < n {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %w: the file ends", ErrFrame, batch.ErrShort)
		}
		return nil, err
	}
	return s.buffer[:n], nil
}
