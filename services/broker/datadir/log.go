package datadir

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// logCheck checks the log of one replica.
type logCheck struct {
	*verifier

	dir        string
	id         string // of the partition; "" = not known
	tag        uint64
	tagged     bool
	known      journal.Replica
	journalled bool

	bases     []partition.Offset // of log files, ascending
	snapshots []partition.Offset // of snapshot files, ascending
	sealedEnd partition.Offset   // of the newest valid snapshot
	end       segment.Place      // of what was read so far
	read      map[partition.Offset]summary
	seals     map[partition.Offset]sealed.Seal
}

// summary is a segment that was read.
type summary struct {
	segment.Summary
	sum     [32]byte // of its log part; zero in a quick look
	damaged bool
}

func (v *verifier) newLog(dir string) *logCheck {
	return &logCheck{verifier: v, dir: dir, read: map[partition.Offset]summary{}, seals: map[partition.Offset]sealed.Seal{}}
}

func (l *logCheck) identify(id replicaIdent) {
	l.id, l.tag, l.tagged = id.id().String(), id.tag(), true
}

// surround finds the replica that a directory of segments belongs to.
func (l *logCheck) surround() {
	id, err := readReplicaIdent(l.fs, path.Dir(l.dir))
	if err != nil {
		return
	}
	l.identify(id)
	l.known, l.journalled = l.verifier.known[id.Replica]
}

// verify checks the segments, or only one of them.
func (l *logCheck) verify(only *partition.Offset) {
	if err := l.list(); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.out.found(segment.Corrupt, l.fs.Name(l.dir), "the log cannot be listed: %v", err)
			return
		}
		if l.vanished(err) {
			return
		}
	}
	l.newestSnapshot()
	if l.journalled && len(l.bases) == 0 && l.known.Mark.Offset > l.known.Origin.Offset {
		l.out.foundAt(segment.Corrupt, l.fs.Name(l.dir), l.id, l.known.Origin.Offset, 0,
			"the log has no file, and everything below offset %d was durable", l.known.Mark.Offset)
	}
	for i, base := range l.bases {
		if l.ctx.Err() != nil {
			return
		}
		if only != nil && *only != base {
			continue
		}
		l.begin(base, only != nil)
		var next *partition.Offset
		if i+1 < len(l.bases) {
			next = &l.bases[i+1]
		}
		l.segment(base, next)
	}
	for _, base := range l.snapshots {
		if l.ctx.Err() != nil {
			return
		}
		if only == nil || *only == base {
			l.snapshot(base)
		}
	}
	l.compareSeals()
}

// list finds the files.
func (l *logCheck) list() error {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return err //nolint:wrapcheck // names the directory.
	}
	var indexes []partition.Offset
	for _, name := range names {
		base, part, ok := segment.ParseName(name)
		switch {
		case strings.HasSuffix(name, segment.TempSuffix):
			if !l.opts.Active {
				l.out.note(l.fs.Name(l.dir+"/"+name), "a crash left this file unfinished; the next start removes it")
			}
		case !ok:
			l.out.note(l.fs.Name(l.dir+"/"+name), "it is no part of a log")
		case part == segment.LogPart:
			l.bases = append(l.bases, base)
		case part == segment.SnapshotPart:
			l.snapshots = append(l.snapshots, base)
		default:
			indexes = append(indexes, base)
		}
	}
	for _, base := range indexes {
		if !slices.Contains(l.bases, base) && !l.opts.Active {
			l.out.note(l.name(base, segment.IndexPart), "an index without its segment; the next start removes it")
		}
	}
	return nil
}

// newestSnapshot finds how far the log is sealed, as recovery does.
func (l *logCheck) newestSnapshot() {
	for _, base := range slices.Backward(l.snapshots) {
		s, err := segment.LoadSnapshot(l.fs, l.dir+"/"+segment.Name(base, segment.SnapshotPart))
		if err == nil && s.Base == base {
			l.sealedEnd = s.End
			return
		}
	}
}

// begin says where a segment should begin, from the one before or from what the journal knows.
func (l *logCheck) begin(base partition.Offset, alone bool) {
	first := len(l.read) == 0
	switch {
	case first && l.journalled && l.known.Origin.Offset == base && !alone:
		l.end = segment.Place{Offset: base, Chain: l.known.Origin.Chain}
	case first && l.journalled && l.known.Mark.Offset == base && l.known.Mark.Base == base:
		l.end = segment.Place{Offset: base, Chain: l.known.Mark.Chain}
	case first:
		l.end = segment.Place{Offset: base, Unchained: true}
	case l.end.Offset != base:
		l.out.foundAt(segment.Corrupt, l.name(base, segment.LogPart), l.id, base, 0,
			"the segment before it ends at offset %d, this one begins at %d: a file is missing or was changed", l.end.Offset, base)
		l.end = segment.Place{Offset: base, Unchained: true}
	default:
		l.end.Position = 0
	}
}

// name names a part of a segment for people.
func (l *logCheck) name(base partition.Offset, part segment.Part) string {
	return l.fs.Name(l.dir + "/" + segment.Name(base, part))
}

// loose checks a segment under another name, such as an object of the bucket.
func (l *logCheck) loose(name string) {
	file, err := l.fs.Open(name, 0)
	if err != nil {
		l.out.found(segment.Corrupt, l.fs.Name(name), "the file cannot be opened: %v", err)
		return
	}
	defer file.Close()
	head := make([]byte, batch.HeaderBytes)
	n, _ := file.ReadAt(head, 0) // what is missing is found below
	h, err := batch.ParseHeader(head[:n])
	if err != nil {
		l.out.foundAt(segment.Corrupt, l.fs.Name(name), l.id, 0, 0, "the file does not begin with a batch: %v", err)
		return
	}
	l.tag, l.tagged = h.PartitionTag, true
	l.end = segment.Place{Offset: partition.Offset(h.SegmentBase), Unchained: true}
	c := segmentCheck{logCheck: l, file: name, base: partition.Offset(h.SegmentBase)}
	c.run(file, nil)
}
