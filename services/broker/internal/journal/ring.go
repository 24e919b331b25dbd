package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// RingFile is the name of the ring in the journal's directory.
const RingFile = "redo.ring"

const (
	ringName   = RingFile
	ringUnmade = ringName + ".new"
)

// Ring is the journal's redo: groups of small appends of many logs, each made durable by one sync. It is bounded, and has been written once
// in full before it is used. Write belongs to one goroutine at a time; the rest is safe beside it.
type Ring struct {
	j    *Journal
	file vfs.File
	id   uint64
	size int64

	// The writer's.
	buffer   []byte
	previous group

	mu struct {
		sync.Mutex
		live []extent // oldest first
		used int64    // bytes of these
		head int64    // where the next group goes if it fits
		next uint64   // its sequence
		full error    // the disk had no room for what had its blocks: nothing more is written in this life
	}
}

// extent is a group's place.
type extent struct {
	sequence   uint64
	at, length int64
}

// ErrRingFull says that a group does not fit before older ones are freed.
var ErrRingFull = errors.New("ring is full")

// BeginRing makes the ring ready for a life, of size bytes rounded up to 4 KiB: it makes the file if there is none of this size, by writing it
// in full. What Open found in it must be settled.
func (j *Journal) BeginRing(size int64) (*Ring, error) {
	size = (size + ringBlock - 1) / ringBlock * ringBlock
	if size < MinRingBytes || size > MaxRingBytes {
		return nil, fault.Errorf(fault.Invalid, "begin ring of %d bytes: must be within [%d, %d]", size, MinRingBytes, MaxRingBytes)
	}
	if j.redo != nil {
		return nil, fault.Errorf(fault.Internal, "begin ring: what it holds is not settled")
	}
	file, err := j.makeRing(size)
	if err != nil {
		return nil, diskError("make ring", err)
	}
	state := j.ringState()
	r := &Ring{j: j, file: file, size: size, id: state.ID + 1}
	if j.rand != nil {
		var p [8]byte
		if _, err := io.ReadFull(j.rand, p[:]); err != nil {
			return nil, errors.Join(fault.Errorf(fault.Internal, "begin ring: read randomness: %w", err), file.Close())
		}
		r.id = binary.LittleEndian.Uint64(p[:])
	}
	r.mu.next = max(state.Tail, 1)
	if err := j.putRing(RingState{ID: r.id, Tail: r.mu.next, Used: true}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	j.mu.Lock()
	j.ring = r
	j.mu.Unlock()
	return r, nil
}

// makeRing gives the file, written in full.
func (j *Journal) makeRing(size int64) (vfs.File, error) {
	name, unmade := j.dir+"/"+ringName, j.dir+"/"+ringUnmade
	if info, err := j.fs.Stat(name); err == nil && info.Size == size {
		return j.fs.Open(name, vfs.Write)
	}
	for _, old := range []string{name, unmade} {
		if err := j.fs.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	file, err := j.fs.Open(unmade, vfs.Write|vfs.Create|vfs.Exclusive)
	if err != nil {
		return nil, err
	}
	err = file.Allocate(0, size)
	zeros := make([]byte, min(size, scanBytes))
	for at := int64(0); err == nil && at < size; at += int64(len(zeros)) {
		_, err = file.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = j.fs.Rename(unmade, name)
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), j.fs.Remove(unmade))
	}
	return file, nil
}

func (j *Journal) ringState() RingState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.state.Ring
}

func (j *Journal) putRing(s RingState) error {
	if err := j.Put(ringRecord(s)); err != nil {
		return err
	}
	return j.Sync()
}

// Room tells how long a group may be at most to fit now.
func (r *Ring) Room() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.mu.full != nil:
		return 0
	case len(r.mu.live) == 0:
		return r.size
	}
	tail := r.mu.live[0].at
	if r.mu.head > tail {
		return max(r.size-r.mu.head, tail)
	}
	return tail - r.mu.head
}

// place finds where a group goes. Live groups are never written over, and a tail that is not durable frees nothing.
func (r *Ring) place(length int64) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.full != nil {
		return 0, false
	}
	tail := r.size
	if len(r.mu.live) > 0 {
		if tail = r.mu.live[0].at; r.mu.head > tail {
			if length <= r.size-r.mu.head {
				return r.mu.head, true
			}
			return 0, length <= tail
		}
	} else if length > r.size-r.mu.head {
		return 0, length <= r.size
	}
	return r.mu.head, length <= tail-r.mu.head
}

// Used tells how many bytes of the ring are live, and its size.
func (r *Ring) Used() (used, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.used, r.size
}

// Next is the sequence of the next group: a byte that is in a file's page cache now may be in groups below it only, or not at all.
func (r *Ring) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.next
}

// Write makes a group durable and gives its sequence. entries say what it is of; fill reads the bytes of one. ErrRingFull, a full disk
// (fault.DiskFull) and an error of fill leave everything as it was; any other error poisons the journal.
func (r *Ring) Write(entries []Redo, fill func(i int, p []byte) error) (uint64, error) {
	if err := r.j.Err(); err != nil {
		return 0, err
	}
	data := int64(0)
	for i := range entries {
		data += entries[i].Length
	}
	if len(entries) == 0 || len(entries) > MaxGroupEntries || data > MaxGroupBytes {
		return 0, fault.Errorf(fault.Internal, "write group: %d entries of %d bytes", len(entries), data)
	}
	g := group{sequence: r.Next(), own: entries, previous: r.previous.own, previousData: r.previous.previousData}
	g.length = groupLength(len(g.own), len(g.previous), data)
	at, ok := r.place(g.length)
	if !ok {
		return 0, ErrRingFull
	}
	p, first, err := r.encode(&g, at, fill)
	if err != nil {
		return 0, err
	}
	if _, err = r.file.WriteAt(p, at); err == nil {
		err = r.file.Datasync()
	}
	if err != nil {
		if isFull(err) {
			return 0, r.giveUp(diskError("write group", err))
		}
		return 0, r.j.poison("write group", err)
	}
	r.previous.own = append(r.previous.own[:0], g.own...)
	r.previous.previousData = first
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.live = append(r.mu.live, extent{g.sequence, at, g.length})
	r.mu.used += g.length
	r.mu.head = at + g.length
	r.mu.next++
	return g.sequence, nil
}

// giveUp ends the writing of groups: a second group of the same sequence must not come to stand beside one that was half written.
func (r *Ring) giveUp(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.full = err
	return err
}

// encode builds a group's bytes in the buffer. first is where the data of it will lie in the ring.
func (r *Ring) encode(g *group, at int64, fill func(i int, p []byte) error) (p []byte, first int64, err error) {
	if int64(cap(r.buffer)) < g.length {
		r.buffer = make([]byte, max(g.length, 2*int64(cap(r.buffer))))
	}
	p = r.buffer[:g.length]
	from := tablesBytes(len(g.own), len(g.previous))
	first = at + from
	for i := range g.own {
		e := &g.own[i]
		if err := fill(i, p[from:from+e.Length]); err != nil {
			return nil, 0, err
		}
		e.Group, e.at, e.sum = g.sequence, at+from, sumOf(p[from:from+e.Length])
		from += e.Length
	}
	clear(p[from:])
	g.put(p, r.id)
	return p, first, nil
}

// Free gives the room of all groups below tail back: what they hold is durable in the files. It waits for the disk.
func (r *Ring) Free(tail uint64) error {
	if err := r.j.putRing(RingState{ID: r.id, Tail: tail, Used: true}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.mu.live
	for len(kept) > 0 && kept[0].sequence < tail {
		r.mu.used -= kept[0].length
		kept = kept[1:]
	}
	r.mu.live = append(r.mu.live[:0], kept...)
	return nil
}

// Rest ends the ring's use: nothing in it is needed any more. The next start need not read it.
func (r *Ring) Rest() error { return r.j.putRing(RingState{ID: r.id, Tail: r.Next(), Used: false}) }

// closeRing closes the files.
func (j *Journal) closeRing() {
	for _, f := range []vfs.File{j.old, func() vfs.File {
		if j.ring != nil {
			return j.ring.file
		}
		return nil
	}()} {
		if f != nil {
			if err := f.Close(); err != nil {
				j.log.Warn("cannot close the ring", "err", err)
			}
		}
	}
	j.old = nil
}

// poison has every later call fail.
func (j *Journal) poison(op string, err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.err == nil {
		j.mu.err = &fault.Error{Kind: fault.DiskPoisoned, Op: op, Err: err}
	}
	return fmt.Errorf("%s: %w", op, j.mu.err)
}

// Repeats tells how many entries the next group repeats. The writer's.
func (r *Ring) Repeats() int { return len(r.previous.own) }
