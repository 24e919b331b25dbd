package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// Reader finds batches in a segment as it was at one moment. It reads headers only, from the nearest entry of the index on. It is immutable
// and safe for concurrent use; bytes that a later cut took away are an error like any other damage.
type Reader struct {
	Summary
	file  *File
	index *Index                 // of an open segment
	slot  *atomic.Pointer[Index] // of any other: loaded when needed
}

// Run is a stretch of whole batches of a segment.
type Run struct {
	First, Next partition.Offset // the offset of the first batch, and behind the last
	Position    int64
	Size        int64
}

// File is the segment's file.
func (r *Reader) File() *File { return r.file }

// Index gives the segment's index, from memory if it is there. It is not to be changed.
func (r *Reader) Index() (*Index, error) {
	if r.index != nil {
		return r.index, nil
	}
	if x := r.slot.Load(); x != nil {
		return x, nil
	}
	x, err := LoadIndex(r.file.files.fs, indexName(r.file.name))
	if err != nil || x.Summary != r.Summary {
		if x, err = r.rebuild(); err != nil {
			return nil, err
		}
	}
	r.file.files.keep(r.slot, x)
	return x, nil
}

// rebuild makes the index from the headers.
func (r *Reader) rebuild() (*Index, error) {
	x := &Index{Summary: Summary{Base: r.Base, End: r.Base, Tag: r.Tag}}
	err := r.Walk(Entry{Offset: r.Base}, func(s *Scanner) bool {
		x.Add(s.Header(), s.Place().Chain)
		return true
	})
	return x, err
}

// Walk visits the headers of the batches from an entry on, until visit returns false or the segment ends.
func (r *Reader) Walk(from Entry, visit func(s *Scanner) bool) error {
	file, err := r.file.Pin()
	if err != nil {
		return diskError(fmt.Sprintf("open segment %d", r.Base), err)
	}
	defer r.file.Unpin()
	s := r.file.files.scanner()
	defer r.file.files.put(s)
	s.Reset(file, r.Size, r.Base, r.Tag, Place{Offset: from.Offset, Position: from.Position, Unchained: true}, r.Size)
	for s.Next() {
		if !visit(s) {
			return nil
		}
	}
	return r.damage(s)
}

// damage explains why a scanner stopped; nil if it was at the end.
func (r *Reader) damage(s *Scanner) error {
	if s.Err() == nil {
		return nil
	}
	at := s.Place()
	op := fmt.Sprintf("read segment %d at offset %d, position %d", r.Base, at.Offset, at.Position)
	return &fault.Error{Kind: fault.Corrupt, Op: op, Err: s.Err()}
}

// Header gives the header of the batch that holds an offset of the segment, and where the batch begins.
func (r *Reader) Header(o partition.Offset) (batch.Header, int64, error) {
	x, err := r.Index()
	if err != nil {
		return batch.Header{}, 0, err
	}
	var h batch.Header
	at := int64(-1)
	err = r.Walk(x.At(o), func(s *Scanner) bool {
		if s.Place().Offset <= o {
			return true
		}
		h, at = *s.Header(), s.Position()
		return false
	})
	if err == nil && at < 0 {
		err = fault.Errorf(fault.OffsetOutOfRange, "find offset %d: segment [%d, %d)", o, r.Base, r.End)
	}
	return h, at, err
}

// EndAt gives the place of a batch boundary of the segment, and the header of the batch that ends there; without one, for Base, nil and an
// unchained place.
func (r *Reader) EndAt(o partition.Offset) (Place, *batch.Header, error) {
	if o == r.Base {
		return Place{Offset: o, Unchained: true}, nil, nil
	}
	x, err := r.Index()
	if err != nil {
		return Place{}, nil, err
	}
	place := Place{}
	var last batch.Header
	err = r.Walk(x.At(o-1), func(s *Scanner) bool {
		place, last = s.Place(), *s.Header()
		return place.Offset < o
	})
	if err == nil && place.Offset != o {
		err = fault.Errorf(fault.Invalid, "find the end of a batch at offset %d: segment [%d, %d)", o, r.Base, r.End)
	}
	return place, &last, err
}

// Run finds the batches from the one that holds from on, as many as end at or below limit and fit in maxBytes, but at least one. An empty
// run says that the first one ends above limit. from must be in the segment. near is a batch at or before from that the caller knows to
// begin there, as one that ended an earlier run; zero = none.
func (r *Reader) Run(from, limit partition.Offset, maxBytes int64, near Entry) (Run, error) {
	x, err := r.Index()
	if err != nil {
		return Run{}, err
	}
	var run Run
	found := false
	grow := func(s *Scanner) bool {
		next, end := s.Place().Offset, s.Place().Position
		switch {
		case next <= from:
			return true
		case !found:
			found = true
			run = Run{First: partition.Offset(s.Header().BaseOffset), Next: partition.Offset(s.Header().BaseOffset), Position: s.Position()}
		}
		if next > limit || run.Size > 0 && end-run.Position > maxBytes {
			return false
		}
		run.Next, run.Size = next, end-run.Position
		return run.Size < maxBytes && next < limit // what follows the limit may be damaged
	}
	first := func(s *Scanner) bool { grow(s); return !found }
	e := x.At(from)
	if near.Position > e.Position && near.Offset <= from {
		e = near
	}
	if err := r.Walk(e, first); err != nil {
		return Run{}, err
	}
	if run.Size == 0 || run.Size >= maxBytes || run.Next >= limit {
		return run, nil
	}
	if limit >= r.End && r.Size-run.Position <= maxBytes {
		run.Next, run.Size = r.End, r.Size-run.Position
		return run, nil
	}
	// The last batch is found from the nearest entry before it, too.
	e = x.AtPosition(run.Position + maxBytes)
	if byOffset := x.At(limit); byOffset.Position < e.Position {
		e = byOffset
	}
	if e.Position > run.Position+run.Size {
		run.Next, run.Size = e.Offset, e.Position-run.Position
	} else {
		e = Entry{Offset: run.Next, Position: run.Position + run.Size}
	}
	return run, r.Walk(e, grow)
}

// FirstAt gives the first offset whose batch has an append time of t (microseconds since 1970) or later; End if there is none.
func (r *Reader) FirstAt(t int64) (partition.Offset, error) {
	x, err := r.Index()
	if err != nil {
		return 0, err
	}
	found := r.End
	err = r.Walk(x.Before(t), func(s *Scanner) bool {
		if s.Header().AppendTime < t {
			return true
		}
		found = partition.Offset(s.Header().BaseOffset)
		return false
	})
	return found, err
}

// Each visits whole batches from the one that holds from on, with their bodies checked, until the segment ends or visit fails. The message is
// valid during the visit only.
func (r *Reader) Each(from partition.Offset, visit func(h batch.Header, msg []byte) error) error {
	start := Place{Offset: r.Base, Unchained: true}
	if from > r.Base {
		h, at, err := r.Header(from)
		if err != nil {
			return err
		}
		start = Place{Offset: partition.Offset(h.BaseOffset), Position: at, Chain: h.Chain}
	}
	file, err := r.file.Pin()
	if err != nil {
		return diskError(fmt.Sprintf("open segment %d", r.Base), err)
	}
	defer r.file.Unpin()
	s := r.file.files.scanner()
	defer r.file.files.put(s)
	s.Reset(file, r.Size, r.Base, r.Tag, start, start.Position)
	for s.Next() {
		if err := visit(*s.Header(), s.Message()); err != nil {
			return err
		}
	}
	return r.damage(s)
}

// digestBytes is how much of a file is read at once.
const digestBytes = 256 << 10

// Digest computes the SHA-256 of the log part. Batches are checked on the way: the digest of damaged bytes would make every sound replica's
// file look wrong.
func (r *Reader) Digest() (sum [32]byte, err error) {
	h := sha256.New()
	err = r.Each(r.Base, func(_ batch.Header, msg []byte) error {
		_, _ = h.Write(msg) // never fails
		return nil
	})
	return [32]byte(h.Sum(nil)), fault.Wrap(fmt.Sprintf("digest segment %d", r.Base), err)
}

// DigestFile computes the SHA-256 of the first size bytes of a file.
func DigestFile(fsys vfs.FS, name string, size int64) (sum [32]byte, err error) {
	file, err := fsys.Open(name, 0)
	if err != nil {
		return sum, err
	}
	defer file.Close()
	return digest(file, size)
}

func digest(file io.ReaderAt, size int64) (sum [32]byte, err error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(file, 0, size), make([]byte, digestBytes))
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return sum, fault.Errorf(fault.Corrupt, "%w", err)
	}
	return [32]byte(h.Sum(nil)), nil
}

// LoadIndex reads an index file. Any error means that there is none.
func LoadIndex(fsys vfs.FS, name string) (*Index, error) {
	p, err := readFile(fsys, name, MaxIndexBytes)
	if err != nil {
		return nil, err
	}
	return ParseIndex(p)
}

// readFile reads a whole file that may not be larger than limit.
func readFile(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	file, err := fsys.Open(name, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("read %s: %d bytes, the limit is %d", fsys.Name(name), size, limit)
	}
	p := make([]byte, size)
	n, err := file.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p[:n], nil
}
