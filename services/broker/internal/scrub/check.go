package scrub

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// Fault is damage in a sealed segment.
type Fault struct {
	Segment  Segment
	Offset   partition.Offset
	Position int64
	Err      error
}

// check reads a segment and compares it with what was sealed; nil where it is good. Whether the end of ctx was the reason, the caller sees
// by ctx.
func check(r io.ReaderAt, s *Segment) *Fault {
	var scan segment.Scanner
	scan.Reset(r, s.Size, s.Base, s.Tag, segment.Place{Offset: s.Base, Unchained: true}, 0)
	sum := sha256.New()
	for scan.Next() {
		_, _ = sum.Write(scan.Message()) // never fails
	}
	end := scan.Place()
	bad := &Fault{Segment: *s, Offset: end.Offset, Position: end.Position, Err: scan.Err()}
	switch {
	case bad.Err != nil:
	case end.Offset != s.End || end.Position != s.Size || end.Chain != s.Chain:
		bad.Err = fmt.Errorf("it ends at offset %d, position %d with chain %#x; sealed were %d, %d and %#x", end.Offset, end.Position, end.Chain,
			s.End, s.Size, s.Chain)
	case s.SHA256 != [32]byte{} && s.SHA256 != [32]byte(sum.Sum(nil)):
		bad.Offset, bad.Position = s.Base, 0
		bad.Err = fmt.Errorf("its SHA-256 is %x, the Seal says %x", sum.Sum(nil), s.SHA256)
	default:
		return nil
	}
	return bad
}

// slowReader reads a file window by window, as jobs of the disk's workers and at a bounded rate. One goroutine reads.
type slowReader struct {
	ctx    context.Context //nolint:containedctx // io.ReaderAt has none, and the reader lives as long as one check
	clock  clock.Clock
	file   vfs.File
	rate   int64 // bytes a second
	do     func(ctx context.Context, job func()) error
	read   func(n int) // counts
	free   time.Time   // when the next window may be read
	window []byte
	at     int64 // position of held[0]
	held   []byte
	end    bool // the file ends behind held
}

// ReadAt implements io.ReaderAt.
func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		from := off + int64(n) - r.at
		if from < 0 || from >= int64(len(r.held)) {
			if r.end && from >= int64(len(r.held)) {
				return n, io.EOF
			}
			if err := r.fill(off + int64(n)); err != nil {
				return n, err
			}
			continue
		}
		n += copy(p[n:], r.held[from:])
	}
	return n, nil
}

// fill reads the window that holds a position.
func (r *slowReader) fill(off int64) error {
	if err := r.wait(); err != nil {
		return err
	}
	at := off / alignment * alignment
	var n int
	var err error
	if doErr := r.do(r.ctx, func() { n, err = r.file.ReadAt(r.window, at) }); doErr != nil {
		return doErr
	}
	r.read(n)
	if err != nil && err != io.EOF { //nolint:errorlint // io.ReaderAt gives it bare.
		return err //nolint:wrapcheck // the fault says where.
	}
	r.at, r.held, r.end = at, r.window[:n], err != nil || n < len(r.window)
	if off >= at+int64(n) {
		return io.EOF
	}
	return nil
}

// wait keeps the rate.
func (r *slowReader) wait() error {
	now := r.clock.Now()
	if err := sleep(r.ctx, r.clock, r.free.Sub(now)); err != nil {
		return err
	}
	from := r.clock.Now()
	if r.free.After(from) {
		from = r.free
	}
	r.free = from.Add(time.Duration(float64(len(r.window)) / float64(r.rate) * float64(time.Second)))
	return nil
}

// sleep waits, or gives the error of ctx.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err() //nolint:wrapcheck // the caller's own.
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own.
	}
}
