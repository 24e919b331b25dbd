package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// Evidence is what the caller can prove about the log from outside of it.
type Evidence struct {
	// HW is a high watermark that this replica knew; 0 = none.
	HW partition.Offset
	// Mark is the newest mark that this replica kept; zero = none.
	Mark segment.Mark
	// Faults are the corrupt ranges that this replica knew of: proof that they were durable once.
	Faults []segment.Range
}

// Recovery is what Open found.
type Recovery struct {
	Tail
	Start partition.Offset
	// Snapshot is the newest valid state at or below End, and SnapshotEnd the offset that it is the state of; nil and 0 = none.
	Snapshot    []byte
	SnapshotEnd partition.Offset
	// Class is the worst that was found. Suspect: the replica must say so when it is asked for its end. Corrupt: it may not lead or serve
	// the ranges in Faults, and where the end itself is among them, it can take no append before a Truncate.
	Class segment.Class
	// Cut is what does not belong to the log any more; empty where nothing was cut.
	Cut segment.Range
	// Faults are the corrupt ranges, in order; reads there fail with fault.Corrupt.
	Faults []segment.Range
}

// Open opens the log of a directory, which it makes if missing, and recovers it. Nothing else may use the directory. Damage does not make it
// fail, but for a log that contradicts its mark (fault.Corrupt): Recovery tells. A disk that fails is fault.DiskPoisoned or DiskFull.
func Open(ctx context.Context, cfg Config, ev Evidence) (*Log, Recovery, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, Recovery{}, err
	}
	l := &Log{
		fs: cfg.FS, dir: path.Clean(cfg.Dir), tag: cfg.Tag, log: cfg.Log, files: cfg.Files, owned: cfg.Files == nil,
		limits: limits, barrier: cfg.Barrier, origin: cfg.Origin, generation: ev.Mark.Generation,
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.owned {
		l.files = segment.NewFiles(l.fs, limits.OpenFiles)
	}
	r := recovery{l: l, ev: ev}
	if err := r.run(ctx); err != nil {
		if l.owned {
			l.files.Close()
		}
		return nil, Recovery{}, fault.Wrap("open log "+l.fs.Name(l.dir), err)
	}
	return l, r.out, nil
}

// recovery is an Open at work.
type recovery struct {
	l         *Log
	ev        Evidence
	bases     []partition.Offset // of log files, ascending
	snapshots []partition.Offset // of snapshot files, ascending
	sealed    partition.Offset   // segments that end at or below are sealed
	end       segment.Place      // of what was taken in so far
	changed   bool               // files were made or removed
	out       Recovery
}

func (r *recovery) run(ctx context.Context) error {
	l := r.l
	if err := r.list(); err != nil {
		return diskError("list", err)
	}
	if err := r.findSnapshot(); err != nil {
		return err
	}
	r.end = segment.Place{Offset: l.origin.Offset, Chain: l.origin.Chain}
	for i, base := range r.bases {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if i == 0 && base != r.end.Offset {
			r.end = r.begin(base)
		}
		if i < len(r.bases)-1 {
			err = r.adopt(base, r.bases[i+1])
		} else {
			err = r.adoptLast(base)
		}
		if err != nil {
			return fmt.Errorf("recover segment %d: %w", base, err)
		}
	}
	if r.changed {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return diskError("sync directory", err)
		}
	}
	l.faults = r.out.Faults
	l.relist()
	l.retail(r.end)
	l.publish()
	l.resetMark(r.ev.Mark) // what was known of the end is known still
	if !l.broken {
		t := l.tail
		l.resetMark(segment.Mark{Generation: l.generation, Base: t.SegmentBase, Offset: t.End, Position: t.SegmentBytes, Chain: t.Chain})
	}
	r.out.Tail, r.out.Start = l.tail, l.start()
	return nil
}

// list finds the files and removes what a crash left half made. A new directory becomes durable here: later it is not looked at again.
func (r *recovery) list() error {
	l := r.l
	names, err := l.fs.List(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	logs := map[partition.Offset]bool{}
	for _, name := range names {
		base, part, ok := segment.ParseName(name)
		switch {
		case ok && part == segment.LogPart:
			r.bases, logs[base] = append(r.bases, base), true
		case ok && part == segment.SnapshotPart:
			r.snapshots = append(r.snapshots, base)
		}
	}
	for _, name := range names {
		base, part, ok := segment.ParseName(name)
		derived := part == segment.IndexPart || part == segment.CompactedPart
		if strings.HasSuffix(name, segment.TempSuffix) || ok && derived && !logs[base] {
			if err := l.fs.Remove(l.dir + "/" + name); err != nil {
				return err
			}
			r.changed = true
		}
	}
	if len(r.bases) > 0 {
		return nil
	}
	return makeDir(l.fs, l.dir)
}

// makeDir makes a directory and the way to it durable.
func makeDir(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for dir != "." {
		dir = path.Dir(dir)
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// findSnapshot loads the newest valid snapshot. It was made after its segment's Seal was committed, and segments are sealed in order: so all
// up to its end are sealed.
func (r *recovery) findSnapshot() error {
	for i := len(r.snapshots) - 1; i >= 0; i-- {
		name := r.l.path(r.snapshots[i], segment.SnapshotPart)
		s, err := segment.LoadSnapshot(r.l.fs, name)
		if err == nil && s.Base == r.snapshots[i] {
			r.sealed = s.End
			r.out.Snapshot, r.out.SnapshotEnd = s.State, s.End
			return nil
		}
		r.l.log.Warn("snapshot cannot be used", "file", r.l.fs.Name(name), "err", err)
	}
	return nil
}

// begin says where the first segment begins when that is not the origin: its name tells, and perhaps the mark knows the chain.
func (r *recovery) begin(base partition.Offset) segment.Place {
	if r.ev.Mark.Offset == base {
		return segment.Place{Offset: base, Chain: r.ev.Mark.Chain}
	}
	return segment.Place{Offset: base, Unchained: true}
}

// adopt takes in a segment that another follows: it was durable as a whole before that one's file was made.
func (r *recovery) adopt(base, next partition.Offset) error {
	l := r.l
	name := l.path(base, segment.LogPart)
	info, err := l.fs.Stat(name)
	if err != nil {
		return diskError("stat", err)
	}
	x, err := segment.LoadIndex(l.fs, l.path(base, segment.IndexPart))
	if err != nil || x.Base != base || x.End != next || x.Tag != l.tag || x.Size > info.Size {
		a, err := r.assess(base, info.Size, nil, segment.Evidence{Synced: next})
		if err != nil {
			return err
		}
		x = a.Index
		if x.End != next {
			return fault.Errorf(fault.Corrupt, "it ends at %d, the next one begins at %d", x.End, next)
		}
		if len(a.Faults) > 0 {
			r.note(a)
		} else if err := segment.WriteIndex(l.fs, l.dir, x); err != nil {
			l.log.Warn("cannot write an index, it will be made again", "segment", uint64(base), "err", err)
		}
	} else {
		r.end = endOf(x)
		r.remembered(x)
	}
	if next > r.sealed {
		l.closed = append(l.closed, segment.AdoptClosed(l.files, l.dir, x))
		return nil
	}
	var sum [32]byte
	if s, err := segment.LoadSnapshotHeader(l.fs, l.path(base, segment.SnapshotPart)); err == nil && s.Base == base && s.End == next && s.Size == x.Size {
		sum = s.SHA256 // a crash may have come between a compacted file and its snapshot; then the caller installs it again
	}
	l.sealed = append(l.sealed, segment.AdoptSealed(l.files, l.dir, x, sum))
	return nil
}

// endOf is the place behind a segment. Behind a rewritten batch the chain is said by what follows.
func endOf(x *segment.Index) segment.Place {
	return segment.Place{Offset: x.End, Position: x.Size, Chain: x.Chain, Unchained: x.Size > 0 && x.Chain == 0}
}

// assess reads a segment whose index cannot be used, or only in part.
func (r *recovery) assess(base partition.Offset, size int64, prefix *segment.Index, ev segment.Evidence) (*segment.Assessment, error) {
	l := r.l
	file := l.files.File(l.path(base, segment.LogPart))
	handle, err := file.Pin()
	if err != nil {
		return nil, diskError("open", err)
	}
	defer file.Forget()
	defer file.Unpin()
	unchained := prefix != nil && endOf(prefix).Unchained
	if prefix == nil {
		prefix = &segment.Index{Summary: segment.Summary{Base: base, End: base, Tag: l.tag, Chain: r.end.Chain}}
		unchained = r.end.Unchained
	}
	a := segment.Assess(handle, size, prefix, unchained, ev)
	r.end = a.End
	return a, nil
}

// note takes down what is wrong with a segment.
func (r *recovery) note(a *segment.Assessment) {
	r.out.Class = max(r.out.Class, a.Class)
	r.out.Faults = append(r.out.Faults, a.Faults...)
	r.out.Cut = a.Cut
	if a.Class != segment.Clean {
		r.l.log.Warn("bad place in a segment", "segment", uint64(a.Index.Base), "class", a.Class.String(), "err", a.Err)
	}
}

// diskError gives an error of the disk its kind.
func diskError(op string, err error) error {
	kind := fault.DiskPoisoned
	if vfs.IsFull(err) {
		kind = fault.DiskFull
	}
	return &fault.Error{Kind: kind, Op: op, Err: err}
}
