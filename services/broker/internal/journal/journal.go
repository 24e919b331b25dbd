package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
)

// Config says where a journal is. FS and Dir are needed.
type Config struct {
	FS  vfs.FS
	Dir string       // below the FS's root; made if missing
	Log *slog.Logger // nil: nothing is logged
	// Create allows a journal to be made where there is none. Without it a missing one is fault.Corrupt: a disk that had promises must
	// not forget them.
	Create bool
	// Rand makes the ring's identity, so that nobody can write records that look like groups. nil: it is counted.
	Rand   io.Reader
	Limits Limits
}

// Journal is a disk's replica-state stream, and its ring of redo. Safe for concurrent use.
type Journal struct {
	fs     vfs.FS
	dir    string
	log    *slog.Logger
	limits Limits
	rand   io.Reader
	redo   []Redo   // what Open found in the ring
	old    vfs.File // the ring that redo is in; nil: none
	ring   *Ring    // nil: not begun. Guarded by mu

	// What follows belongs to whoever has set mu.flushing, and to Open.
	file     vfs.File
	number   uint64
	position int64 // where the next record is written
	room     int64 // a file that grows beyond this is due for a checkpoint
	buffer   []byte

	mu struct {
		sync.Mutex
		state        State
		pending      []Record // not written; the last one has sequence next-1
		pendingBytes int
		next         uint64 // sequence of the next record
		durable      uint64 // every record with a lower sequence is durable
		flushing     bool
		flushed      chan struct{} // closed when the running flush has ended
		err          error         // poisoned or closed
	}
}

var errClosed = errors.New("journal is closed")

// Open reads the journal, or makes it, and gives the state it holds. The state is the caller's. Damage is fault.Corrupt and changes nothing.
func Open(cfg Config) (*Journal, State, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, State{}, err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	reading, err := Inspect(cfg.FS, cfg.Dir, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist) && cfg.Create:
		if err := makeDir(cfg.FS, cfg.Dir); err != nil {
			return nil, State{}, diskError("make journal", err)
		}
		reading = Reading{State: State{Replicas: map[partition.UUID]Replica{}}, Next: 1}
	case errors.Is(err, fs.ErrNotExist):
		return nil, State{}, fault.Errorf(fault.Corrupt, "open journal: %w", err)
	case err != nil:
		return nil, State{}, err
	}
	found, old, err := openRing(cfg.FS, cfg.Dir, reading.State.Ring)
	if err != nil {
		return nil, State{}, err
	}
	if reading.Torn > 0 {
		log.Warn("journal had a torn end", "bytes", reading.Torn, "number", reading.Number)
	}
	j := &Journal{fs: cfg.FS, dir: cfg.Dir, log: log, limits: limits, number: reading.Number, rand: cfg.Rand, redo: found, old: old}
	j.mu.state, j.mu.next, j.mu.durable = reading.State, reading.Next, reading.Next
	if err := j.checkpoint(&reading.State, reading.Next); err != nil {
		j.closeRing()
		return nil, State{}, diskError("open journal", err)
	}
	return j, j.mu.state.clone(), nil
}

// makeDir makes dir durable below the root.
func makeDir(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for at := len(dir) - 1; at > 0; at-- {
		if dir[at] == '/' {
			if err := fsys.SyncDir(dir[:at]); err != nil {
				return err
			}
		}
	}
	return fsys.SyncDir(".")
}

// Put takes in records, in order: all or, if one is about a replica that was not created, none. They are durable after a Sync that begins
// later. It does not wait for the disk, unless more than PendingBytes wait already.
func (j *Journal) Put(records ...Record) error {
	j.mu.Lock()
	if err := j.mu.err; err != nil {
		j.mu.Unlock()
		return err
	}
	if err := j.mu.state.accepts(records); err != nil {
		j.mu.Unlock()
		return fault.Errorf(fault.NotFound, "put journal record: %w", err)
	}
	for _, r := range records {
		_ = j.mu.state.apply(r) // accepts has seen that it does
		j.mu.pendingBytes += frameBytes + len(r.payload)
	}
	j.mu.pending = append(j.mu.pending, records...)
	j.mu.next += uint64(len(records))
	full := j.mu.pendingBytes > j.limits.PendingBytes
	j.mu.Unlock()
	if full {
		return j.Sync()
	}
	return nil
}

// accepts tells whether every record is about a replica that is known by then.
func (s *State) accepts(records []Record) error {
	known := func(before int, replica partition.UUID) bool {
		_, ok := s.Replicas[replica]
		for _, r := range records[:before] {
			if r.replica == replica && (r.kind == KindCreated || r.kind == KindDeleted) {
				ok = r.kind == KindCreated
			}
		}
		return ok
	}
	for i, r := range records {
		if err := r.check(); err != nil {
			return err
		}
		if r.kind != KindCreated && r.kind != KindRing && !known(i, r.replica) {
			return fmt.Errorf("%s of replica %s, which was not created", r.kind, r.replica)
		}
	}
	return nil
}

// Replica gives the state of one replica, with everything that was Put.
func (j *Journal) Replica(replica partition.UUID) (Replica, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.mu.state.Replicas[replica]
	return r, ok
}

// Err tells why the journal takes nothing any more; nil if it does.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.err
}

// Close makes what was Put durable and closes the file. The journal takes nothing afterwards.
func (j *Journal) Close() error {
	err := j.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.mu.flushing {
		j.awaitFlush()
	}
	if errors.Is(j.mu.err, errClosed) {
		return nil
	}
	j.mu.err = fault.Errorf(fault.Unavailable, "use journal: %w", errClosed)
	j.closeRing()
	return errors.Join(err, diskError("close journal", j.file.Close()))
}

// diskError gives an error of a file its kind: a full disk is DiskFull, all else DiskPoisoned.
func diskError(op string, err error) error {
	if err == nil {
		return nil
	}
	kind := fault.DiskPoisoned
	if isFull(err) {
		kind = fault.DiskFull
	}
	return &fault.Error{Kind: kind, Op: op, Err: err}
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
