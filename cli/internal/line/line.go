package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// chunk is how much is read at once.
const chunk = 1 << 20

// TooLongError says that a line cannot be a record.
type TooLongError struct {
	Line  int // from 1
	Limit int // bytes
}

// Error tells what can be done.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("line %d is longer than a record may be here, which is %d bytes: raise the topic's batch bytes, or split it", e.Line, e.Limit)
}

// Scanner reads records from a stream.
type Scanner struct {
	in    io.Reader
	raw   bool
	limit int
	buf   []byte
	from  int // of the bytes not given yet
	seen  int // up to here there is no line feed
	end   int
	lines int
	err   error // from in
}

// NewScanner makes a scanner whose records have at most limit bytes.
func NewScanner(in io.Reader, raw bool, limit int) *Scanner {
	return &Scanner{in: in, raw: raw, limit: limit, buf: make([]byte, 2*chunk)}
}

// Next gives the next record, which is valid until the call after; io.EOF where there is none.
func (s *Scanner) Next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(s.buf[s.seen:s.end], '\n'); i >= 0 {
			return s.take(s.seen + i + 1)
		}
		s.seen = s.end
		switch {
		case s.err != nil && s.from == s.end:
			return nil, s.err
		case errors.Is(s.err, io.EOF):
			return s.take(s.end)
		case s.err != nil:
			return nil, s.err
		case s.end-s.from > s.limit+2: // its end could be two bytes
			return nil, &TooLongError{Line: s.lines + 1, Limit: s.limit}
		}
		s.fill()
	}
}

// take gives the bytes up to an index as a record.
func (s *Scanner) take(to int) ([]byte, error) {
	record := s.buf[s.from:to]
	s.from, s.seen = to, to
	s.lines++
	if !s.raw {
		if trimmed, ok := bytes.CutSuffix(record, []byte("\n")); ok {
			record = bytes.TrimSuffix(trimmed, []byte("\r"))
		}
	}
	if len(record) > s.limit {
		return nil, &TooLongError{Line: s.lines, Limit: s.limit}
	}
	return record, nil
}

// fill reads on, and makes room before where there is little.
func (s *Scanner) fill() {
	if len(s.buf)-s.end < chunk/2 {
		if s.from < len(s.buf)/2 {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		copy(s.buf, s.buf[s.from:s.end])
		s.end, s.seen, s.from = s.end-s.from, s.seen-s.from, 0
	}
	var n int
	n, s.err = s.in.Read(s.buf[s.end:])
	s.end += n
}
