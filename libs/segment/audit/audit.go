package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// Finding is something to tell about a file.
type Finding struct {
	File     string // as a person would type it
	Damage   bool   // else a note
	Position int64  // in the file; 0 where it is about the file as a whole
	Offset   partition.Offset
	What     string
}

// String gives one line.
func (f Finding) String() string {
	kind := "note"
	if f.Damage {
		kind = "DAMAGE"
	}
	return fmt.Sprintf("%s: %s at position %d, offset %d: %s", f.File, kind, f.Position, f.Offset, f.What)
}

// Report is what a log holds.
type Report struct {
	Start, End partition.Offset
	Segments   []segment.Summary
	Batches    int64
	Bytes      int64
	Findings   []Finding
}

// Damaged tells whether some finding is damage.
func (r *Report) Damaged() bool {
	for _, f := range r.Findings {
		if f.Damage {
			return true
		}
	}
	return false
}

// Log reads the log in a directory. It fails only where it cannot look: damage is in the report.
func Log(ctx context.Context, fsys vfs.FS, dir string) (*Report, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list log: %w", err)
	}
	a := &auditor{fs: fsys, dir: dir, out: &Report{}}
	a.sort(names)
	a.next = segment.Place{Unchained: true}
	for i, base := range a.bases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i == 0 {
			a.out.Start, a.next.Offset = base, base
		}
		after := partition.Offset(0)
		if i < len(a.bases)-1 {
			after = a.bases[i+1]
		}
		if err := a.segment(base, after); err != nil {
			return nil, fmt.Errorf("read segment %d: %w", base, err)
		}
	}
	a.out.End = a.next.Offset
	for _, base := range a.snapshots {
		a.snapshot(base)
	}
	return a.out, nil
}

var errMissing = errors.New("the file ends, or the next one is missing")

type auditor struct {
	fs        vfs.FS
	dir       string
	bases     []partition.Offset
	indexes   map[partition.Offset]bool
	snapshots []partition.Offset
	tag       uint64
	tagged    bool
	next      segment.Place // where the next segment begins
	out       *Report
}

func (a *auditor) find(file string, damage bool, position int64, o partition.Offset, format string, args ...any) {
	a.out.Findings = append(a.out.Findings, Finding{
		File: a.fs.Name(a.dir + "/" + file), Damage: damage, Position: position, Offset: o, What: fmt.Sprintf(format, args...),
	})
}

// sort puts the files in their place.
func (a *auditor) sort(names []string) {
	a.indexes = map[partition.Offset]bool{}
	for _, name := range names {
		base, part, ok := segment.ParseName(name)
		switch {
		case !ok && strings.HasSuffix(name, segment.TempSuffix):
			a.find(name, false, 0, 0, "an unfinished file; the broker removes it")
		case !ok:
			a.find(name, false, 0, 0, "not a file of a log")
		case part == segment.LogPart:
			a.bases = append(a.bases, base)
		case part == segment.IndexPart:
			a.indexes[base] = true
		default:
			a.snapshots = append(a.snapshots, base)
		}
	}
}

// segment reads a segment; after is the base of the one that follows, 0 for the last.
func (a *auditor) segment(base, after partition.Offset) error {
	name := segment.Name(base, segment.LogPart)
	file, err := a.fs.Open(a.dir+"/"+name, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	if base != a.next.Offset {
		a.find(name, true, 0, base, "the segment before ends at %d", a.next.Offset)
		a.next = segment.Place{Offset: base, Unchained: true}
	}
	a.learnTag(file, size)
	known, indexErr := segment.LoadIndex(a.fs, a.dir+"/"+segment.Name(base, segment.IndexPart))
	ev := segment.Evidence{Synced: max(base, after), Recycled: segment.IsRecycled(size)}
	if indexErr == nil && known.Base == base {
		ev.Synced = max(ev.Synced, known.End)
	}
	prefix := &segment.Index{Summary: segment.Summary{Base: base, End: base, Tag: a.tag, Chain: a.next.Chain}}
	got := segment.Assess(file, size, prefix, a.next.Unchained, ev)
	a.next = segment.Place{Offset: got.End.Offset, Chain: got.End.Chain, Unchained: got.End.Unchained}
	a.out.Segments = append(a.out.Segments, got.Index.Summary)
	a.out.Bytes += got.Index.Size
	a.out.Batches += got.Batches
	a.places(name, got)
	a.index(base, after == 0, known, indexErr, got)
	return nil
}

// learnTag takes the partition tag of the first batch that has one: all others must have it too.
func (a *auditor) learnTag(file vfs.File, size int64) {
	if a.tagged || size < batch.HeaderBytes {
		return
	}
	head := make([]byte, batch.HeaderBytes)
	if n, _ := file.ReadAt(head, 0); n < len(head) {
		return
	}
	if h, err := batch.ParseHeader(head); err == nil {
		a.tag, a.tagged = h.PartitionTag, true
	}
}

// places tells the bad places of a segment.
func (a *auditor) places(name string, got *segment.Assessment) {
	why := got.Err
	if why == nil {
		why = errMissing
	}
	for _, r := range got.Faults {
		a.find(name, true, r.Position, r.From, "[%d, %d) cannot be read: %v", r.From, r.To, why)
	}
	if got.Cut.Limit > got.Cut.Position && got.Class != segment.Clean {
		suspect := got.Suspect
		what := "torn: %d bytes behind the end were never acknowledged here: %v"
		if suspect {
			what = "suspect: %d bytes behind the end may have been acknowledged: %v"
		}
		a.find(name, suspect, got.Cut.Position, got.Cut.From, what, got.Cut.Limit-got.Cut.Position, got.Err)
	}
}

// index compares an index file with what the frames say.
func (a *auditor) index(base partition.Offset, last bool, known *segment.Index, err error, got *segment.Assessment) {
	name := segment.Name(base, segment.IndexPart)
	switch {
	case !a.indexes[base]:
		if !last {
			a.find(name, false, 0, base, "missing; the broker makes it again")
		}
	case err != nil:
		a.find(name, false, 0, base, "cannot be used; the broker makes it again: %v", err)
	case len(got.Faults) > 0:
	case last && known.Size < got.Index.Size:
		// The log was opened after this was written, and went on.
	case known.Summary != got.Index.Summary:
		a.find(name, true, 0, base, "it says %+v, the frames %+v", known.Summary, got.Index.Summary)
	default:
		for i, e := range known.Entries {
			if i >= len(got.Index.Entries) || got.Index.Entries[i] != e {
				a.find(name, true, 0, e.Offset, "entry %d is not that of the frames", i)
				return
			}
		}
	}
}

// snapshot checks a snapshot, and the digest of its segment.
func (a *auditor) snapshot(base partition.Offset) {
	name := segment.Name(base, segment.SnapshotPart)
	s, err := segment.LoadSnapshot(a.fs, a.dir+"/"+name)
	if err != nil {
		a.find(name, true, 0, base, "%v", err)
		return
	}
	if s.Base != base {
		a.find(name, true, 0, base, "it is of segment %d", s.Base)
		return
	}
	sum, err := segment.DigestFile(a.fs, a.dir+"/"+segment.Name(base, segment.LogPart), s.Size)
	switch {
	case errors.Is(err, fs.ErrNotExist): // dropped
		if base >= a.out.Start {
			a.find(name, true, 0, base, "its segment is missing")
		}
	case err != nil:
		a.find(name, true, 0, base, "digest of its segment: %v", err)
	case sum != s.SHA256:
		a.find(segment.Name(base, segment.LogPart), true, 0, base, "its digest is %x, it was sealed with %x", sum, s.SHA256)
	}
}
