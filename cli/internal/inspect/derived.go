package inspect

import (
	"fmt"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/datadir"
)

// Index shows an index file.
func (p Printer) Index(files vfs.FS, name string) error {
	x, err := segment.LoadIndex(files, name)
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	about := fields{
		{"base", x.Base},
		{"end", x.End},
		{"size", x.Size},
		{"epoch", x.Epoch},
		{"firstAppendTime", timeText(x.FirstAppendTime)},
		{"lastAppendTime", timeText(x.LastAppendTime)},
		{"hasRecords", x.HasRecords},
		{"chain", hex(x.Chain)},
		{"partitionTag", hex(x.Tag)},
	}
	if p.JSON {
		entries := make([]fields, 0, len(x.Entries))
		for _, e := range x.Entries {
			entries = append(entries, fields{{"offset", e.Offset}, {"position", e.Position}, {"appendTime", timeText(e.AppendTime)}})
		}
		return p.object(append(about, field{"entries", entries}))
	}
	if err := p.about(about); err != nil {
		return err
	}
	if err := p.line("\n%-12s %-11s %s", "OFFSET", "POSITION", "APPENDED"); err != nil {
		return err
	}
	for _, e := range x.Entries {
		if err := p.line("%-12d %-11d %s", e.Offset, e.Position, timeText(e.AppendTime)); err != nil {
			return err
		}
	}
	return nil
}

// about prints fields one a line.
func (p Printer) about(f fields) error {
	for _, one := range f {
		if err := p.line("%-16s %s", one.key, fields{{"", one.value}}.text()[1:]); err != nil {
			return err
		}
	}
	return nil
}

// Journal shows a journal's records, and what they come to.
func (p Printer) Journal(files vfs.FS, name string) error {
	var failed error
	if !p.JSON {
		failed = p.line("%-10s %-10s %-8s %-36s  %s", "POSITION", "SEQUENCE", "KIND", "REPLICA", "SAYS")
	}
	summary, err := datadir.Journal(files, name, func(r datadir.JournalRecord) {
		switch {
		case failed != nil:
		case p.JSON:
			failed = p.object(r)
		default:
			failed = p.line("%-10d %-10d %-8s %-36s  %s", r.Position, r.Sequence, r.Kind, r.Replica, journalText(r))
		}
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err //nolint:wrapcheck // says what is damaged.
	}
	if p.JSON {
		return p.object(struct {
			Summary datadir.JournalSummary `json:"summary"`
		}{summary})
	}
	torn := ""
	if summary.Torn > 0 {
		torn = fmt.Sprintf(", %d bytes of a torn write behind them", summary.Torn)
	}
	return p.line("\njournal %d: %d records, %d replicas, end at position %d%s", summary.Number, summary.Records, summary.Replicas, summary.End, torn)
}

func journalText(r datadir.JournalRecord) string {
	var f fields
	if r.Partition != "" {
		f = append(f, field{"partition", r.Partition}, field{"origin", *r.Origin})
	}
	if r.Epoch != nil {
		f = append(f, field{"epoch", *r.Epoch})
	}
	if r.HighWatermark != nil {
		f = append(f, field{"highWatermark", *r.HighWatermark})
	}
	if m := r.Mark; m != nil {
		f = append(f, field{"generation", m.Generation}, field{"segment", m.Segment}, field{"offset", m.Offset}, field{"position", m.Position},
			field{"chain", hex(m.Chain)})
	}
	if ring := r.Ring; ring != nil {
		f = append(f, field{"tail", ring.Tail}, field{"used", ring.Used})
	}
	for _, bad := range r.Faults {
		f = append(f, field{"fault", fmt.Sprintf("%d..%d segment %d bytes %d..%d", bad.From, bad.To, bad.Segment, bad.Position, bad.Limit)})
	}
	return f.text()
}

// snapshotRead is how many bytes a reader of a snapshot's state may follow pointers to, for each byte of it.
const snapshotRead = 8

// Snapshot shows a snapshot file: the seal, and what the state holds.
func (p Printer) Snapshot(files vfs.FS, name string) error {
	s, err := segment.LoadSnapshot(files, name)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	about := fields{{"base", s.Base}, {"end", s.End}, {"size", s.Size}, {"sha256", fmt.Sprintf("%x", s.SHA256)}, {"stateBytes", len(s.State)}}
	state, err := stateOf(s.State)
	if err != nil {
		return fmt.Errorf("read the state in the snapshot: %w", err)
	}
	if p.JSON {
		return p.object(append(about, field{"state", state}))
	}
	if err := p.about(about); err != nil {
		return err
	}
	if err := p.line("\nstate at %d", s.End); err != nil {
		return err
	}
	return p.about(state)
}

// stateOf sums a state up: its words, and how long its lists are; epochs, seals and keys are listed.
func stateOf(p []byte) (fields, error) {
	m, err := capnp.Unmarshal(p)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	m.ResetReadLimit(snapshotRead*uint64(len(p)) + 1<<20)
	in, err := batchcapnp.ReadRootSnapshot(m)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	out := fields{
		{"formatVersion", in.FormatVersion()},
		{"end", in.End()},
		{"chain", hex(in.Chain())},
		{"lastAppendTime", timeText(in.LastAppendTime())},
		{"logStart", in.LogStart()},
		{"tierEnd", in.TierEnd()},
	}
	epochs, err := in.Epochs()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	starts := make([]fields, 0, epochs.Len())
	for i := range epochs.Len() {
		starts = append(starts, fields{{"epoch", epochs.At(i).Epoch()}, {"start", epochs.At(i).Start()}})
	}
	out = append(out, field{"epochs", starts})
	seals, err := in.Sealed()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	list := make([]fields, 0, seals.Len())
	for i := range seals.Len() {
		sum, err := seals.At(i).Sha256()
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller says what is read.
		}
		list = append(list, fields{{"base", seals.At(i).Base()}, {"end", seals.At(i).End()}, {"size", seals.At(i).Size()}, {"sha256", fmt.Sprintf("%x", sum)}})
	}
	out = append(out, field{"sealed", list})
	producers, err := in.Producers()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	keys, err := in.DedupeKeys()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	tier, err := in.Tier()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what is read.
	}
	return append(out, field{"producers", producers.Len()}, field{"dedupeKeys", keys.Len()}, field{"tieredSegments", tier.Len()}), nil
}
