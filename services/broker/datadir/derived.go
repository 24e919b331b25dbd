package datadir

import (
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// snapshot checks a snapshot file against the segment it was made of.
func (l *logCheck) snapshot(base partition.Offset) {
	name := l.name(base, segment.SnapshotPart)
	s, err := segment.LoadSnapshot(l.fs, l.dir+"/"+segment.Name(base, segment.SnapshotPart))
	if err != nil {
		if !l.vanished(err) {
			l.out.found(segment.Corrupt, name, "the snapshot cannot be used; the broker takes an older one: %v", err)
		}
		return
	}
	if s.Base != base {
		l.out.found(segment.Corrupt, name, "the snapshot is of segment %d", s.Base)
		return
	}
	state, err := fold.Decode(s.State)
	if err != nil {
		l.out.found(segment.Corrupt, name, "the state in the snapshot cannot be read: %v", err)
		return
	}
	if state.End() != s.End {
		l.out.found(segment.Corrupt, name, "the state in the snapshot is of offset %d, its segment ends at %d", state.End(), s.End)
		return
	}
	for _, seal := range state.Tier.Seals() {
		l.learn(seal)
	}
	own := sealed.Seal{Base: s.Base, End: s.End, Size: uint64(s.Size), SHA256: s.SHA256}
	if !l.says(own) {
		l.out.foundAt(segment.Corrupt, name, l.id, base, 0, "the snapshot says %s, the Seal in the log says %s", sealText(own), sealText(l.seals[base][0]))
		return
	}
	l.learn(own)
	// Behind a last batch that compaction has rewritten the log does not tell.
	if read, ok := l.read[base]; ok && !read.damaged && read.End == s.End && read.Chain != 0 && (read.Chain != state.Chain() || read.LastAppendTime != state.Time()) {
		l.out.foundAt(segment.Corrupt, name, l.id, s.End, 0,
			"the snapshot has chain %#x and append time %d at offset %d, the log has %#x and %d", state.Chain(), state.Time(), s.End, read.Chain, read.LastAppendTime)
	}
}

// learn takes in what the log says of a segment.
func (l *logCheck) learn(seal sealed.Seal) {
	if !slices.Contains(l.seals[seal.Base], seal) {
		l.seals[seal.Base] = append(l.seals[seal.Base], seal)
	}
}

// says tells whether the log says this of a segment, or nothing. A quick look does not read the Compacts: there, fewer bytes may be right.
func (l *logCheck) says(own sealed.Seal) bool {
	seals := l.seals[own.Base]
	return len(seals) == 0 || slices.ContainsFunc(seals, func(s sealed.Seal) bool {
		return s == own || l.opts.Quick && s.End == own.End && own.Size < s.Size
	})
}

// compareSeals compares what was read with what was sealed.
func (l *logCheck) compareSeals() {
	for _, base := range l.bases {
		read, ok := l.read[base]
		seals := l.seals[base]
		if !ok || len(seals) == 0 || read.damaged {
			continue // damage was told already
		}
		name := l.name(base, segment.LogPart)
		i := slices.IndexFunc(seals, func(s sealed.Seal) bool { return s.End == read.End && s.Size == uint64(read.Size) })
		perhapsCompacted := l.opts.Quick && seals[0].End == read.End && uint64(read.Size) < seals[0].Size
		if i < 0 && !perhapsCompacted {
			l.out.foundAt(segment.Corrupt, name, l.id, read.End, read.Size,
				"the segment was sealed as %s, but has offsets %d to %d in %d bytes", sealText(seals[0]), base, read.End, read.Size)
			continue
		}
		if l.opts.Quick {
			continue
		}
		l.out.Seals++
		if seals[i].SHA256 != read.sum {
			l.out.foundAt(segment.Corrupt, name, l.id, base, 0,
				"the SHA-256 of the segment is %x, its Seal says %x: its bytes are not those that were sealed", read.sum, seals[i].SHA256)
		}
	}
}

func sealText(s sealed.Seal) string {
	return fmt.Sprintf("offsets %d to %d in %d bytes with SHA-256 %x", s.Base, s.End, s.Size, s.SHA256)
}
