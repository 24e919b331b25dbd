package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// openRing reads what is live in the ring. nil where nothing is.
func openRing(fsys vfs.FS, dir string, s RingState) ([]Redo, vfs.File, error) {
	if !s.Used {
		return nil, nil, nil
	}
	file, err := fsys.Open(dir+"/"+ringName, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fault.Errorf(fault.Corrupt, "open ring: it was in use: %w", err)
		}
		return nil, nil, diskError("open ring", err)
	}
	size, err := file.Size()
	if err == nil && (size < MinRingBytes || size%ringBlock != 0) {
		err = fault.Errorf(fault.Corrupt, "open ring: it has %d bytes", size)
	}
	if err != nil {
		return nil, nil, errors.Join(diskKind("measure ring", err), file.Close())
	}
	scan := ringScan{file: file, size: size, state: s, groups: map[uint64]group{}}
	redo, err := scan.run()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return redo, file, nil
}

// InspectRing gives what is live in the ring, in the order in which it was written, without changing anything: what the next start brings into the
// files. s is from the state.
func InspectRing(fsys vfs.FS, dir string, s RingState) ([]Redo, error) {
	redo, file, err := openRing(fsys, dir, s)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return redo, err
}

// diskKind is diskError for what has no kind yet.
func diskKind(op string, err error) error {
	if fault.Is(err, fault.Corrupt) {
		return err
	}
	return diskError(op, err)
}

// ringScan finds the live groups of a ring.
type ringScan struct {
	file   vfs.File
	size   int64
	state  RingState
	groups map[uint64]group
	head   uint64
	window []byte
	from   int64 // where window is from
}

func (s *ringScan) run() ([]Redo, error) {
	for at := int64(0); at < s.size; {
		g, err := s.group(at)
		if err != nil || g.sequence < s.state.Tail {
			at += ringBlock // a dead group may have a live one inside
			continue
		}
		s.groups[g.sequence] = g
		s.head = max(s.head, g.sequence)
		at += g.length
	}
	redo := []Redo{}
	for sequence := max(s.state.Tail, 1); sequence <= s.head; sequence++ {
		entries, err := s.entries(sequence)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Lost = readRedo(s.file, e, nil) != nil; e.Lost && sequence == s.head {
				continue // the last write may be torn: nobody was answered for it
			}
			redo = append(redo, e)
		}
	}
	return redo, nil
}

// entries gives what a live group holds. Each one was durable before the next one was written, and that one repeats its list.
func (s *ringScan) entries(sequence uint64) ([]Redo, error) {
	if g, ok := s.groups[sequence]; ok {
		return g.own, nil
	}
	if next, ok := s.groups[sequence+1]; ok && len(next.previous) > 0 {
		return next.previous, nil
	}
	return nil, fault.Errorf(fault.Corrupt, "read ring: group %d was durable, its header and the copy of it are damaged: what it held is not known", sequence)
}

// group reads the header at a position.
func (s *ringScan) group(at int64) (group, error) {
	p, err := s.bytes(at, groupHeaderBytes)
	if err != nil {
		return group{}, err
	}
	n, err := groupHeaderSize(p)
	if err != nil {
		return group{}, err
	}
	if n > s.size-at {
		return group{}, fmt.Errorf("%w: header of %d bytes at %d", errGroup, n, at)
	}
	if p, err = s.bytes(at, n); err != nil {
		return group{}, err
	}
	return parseGroup(p, s.state.ID, at, s.size)
}

// bytes gives [at, at+n), mostly from the window.
func (s *ringScan) bytes(at, n int64) ([]byte, error) {
	if at >= s.from && at+n <= s.from+int64(len(s.window)) {
		return s.window[at-s.from:][:n], nil
	}
	length := min(max(n, scanBytes), s.size-at)
	if int64(cap(s.window)) < length {
		s.window = make([]byte, length)
	}
	s.window, s.from = s.window[:length], at
	if _, err := s.file.ReadAt(s.window, at); err == nil {
		return s.window[:n], nil
	}
	s.window = s.window[:0] // some of it cannot be read: perhaps not what is asked for
	p := make([]byte, n)
	_, err := s.file.ReadAt(p, at)
	return p, err
}

// Redo gives what Open found in the ring, in the order in which it was written. Not to be changed.
func (j *Journal) Redo() []Redo { return j.redo }

// ReadRedo reads the bytes of what Redo gave.
func (j *Journal) ReadRedo(r Redo, p []byte) error {
	return diskKind("read redo", readRedo(j.old, r, p))
}

// readRedo reads an entry's bytes into p, or into a buffer of its own, and checks them.
func readRedo(file vfs.File, r Redo, p []byte) error {
	if p == nil {
		p = make([]byte, r.Length)
	}
	if _, err := file.ReadAt(p[:r.Length], r.at); err != nil {
		return err
	}
	if got := sumOf(p[:r.Length]); got != r.sum {
		return fault.Errorf(fault.Corrupt, "read group %d: bytes at %d have checksum %#08x, its header says %#08x", r.Group, r.at, got, r.sum)
	}
	return nil
}

// Settle says that everything that Redo gave is durable in the files, and makes that durable, with the marks that follow from it.
func (j *Journal) Settle(marks ...Record) error {
	if j.redo == nil {
		return nil
	}
	s := j.ringState()
	for _, r := range j.redo {
		s.Tail = max(s.Tail, r.Group+1)
	}
	s.Used = false
	if err := j.Put(append(marks, ringRecord(s))...); err != nil {
		return err
	}
	if err := j.Sync(); err != nil {
		return err
	}
	j.redo = nil
	j.closeRing()
	return nil
}
