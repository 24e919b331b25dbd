package datadir

import (
	"path"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// JournalRecord is one record of a journal. What is not of its kind is nil or empty.
type JournalRecord struct {
	Position int64  `json:"position"`
	Sequence uint64 `json:"sequence"`
	// Kind is created, deleted, promise, mark, hw, faults or ring.
	Kind    string `json:"kind"`
	Replica string `json:"replica"` // zero for ring
	// Partition and Origin are of created: topic UUID and partition, and the offset that an empty log begins at.
	Partition string  `json:"partition,omitempty"`
	Origin    *uint64 `json:"origin,omitempty"`
	// Epoch is promised.
	Epoch *uint64 `json:"epoch,omitempty"`
	// HighWatermark was known.
	HighWatermark *uint64 `json:"highWatermark,omitempty"`
	// Mark says how far the log is durable.
	Mark *JournalMark `json:"mark,omitempty"`
	// Ragged: whether the log's end may have lost what was acknowledged.
	Ragged *bool `json:"ragged,omitempty"`
	// Acked: where the high watermark was, on disk or not.
	Acked *uint64 `json:"acked,omitempty"`
	// Faults are the damaged ranges that the broker knows.
	Faults []JournalFault `json:"faults,omitempty"`
	// Ring says which groups of the ring are live.
	Ring *JournalRing `json:"ring,omitempty"`
}

// JournalRing says what of the ring the next start needs: if it is used, the groups from Tail on.
type JournalRing struct {
	Tail uint64 `json:"tail"`
	Used bool   `json:"used"`
}

// JournalMark is a place up to which a log is durable.
type JournalMark struct {
	Generation uint64 `json:"generation"`
	Segment    uint64 `json:"segment"`
	Offset     uint64 `json:"offset"`
	Position   int64  `json:"position"`
	Chain      uint64 `json:"chain"`
}

// JournalFault is a damaged range: offsets [From, To), bytes [Position, Limit) of a segment.
type JournalFault struct {
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Segment  uint64 `json:"segment"`
	Position int64  `json:"position"`
	Limit    int64  `json:"limit"`
}

// JournalSummary is what a journal holds.
type JournalSummary struct {
	Number  uint64 `json:"number"`
	Records int    `json:"records"`
	// End is the position behind the last valid record.
	End int64 `json:"end"`
	// Torn counts the bytes behind it that belong to a write that nobody was answered for.
	Torn     int64 `json:"torn"`
	Replicas int   `json:"replicas"`
}

// Journal reads a journal: the newest file of a directory, or the file that is named. each sees the valid records, before damage too.
// Damage is fault.Corrupt, and the summary then says how far it was read; no journal at all wraps fs.ErrNotExist.
func Journal(fsys vfs.FS, name string, each func(JournalRecord)) (JournalSummary, error) {
	see := func(position int64, sequence uint64, r journal.Record) { each(journalRecord(position, sequence, r)) }
	info, err := fsys.Stat(name)
	if err != nil {
		return JournalSummary{}, err //nolint:wrapcheck // names the file.
	}
	var reading journal.Reading
	if info.Dir {
		reading, err = journal.Inspect(fsys, name, see)
	} else {
		reading, err = journal.InspectFile(fsys, path.Dir(name), path.Base(name), see)
	}
	return JournalSummary{
		Number: reading.Number, Records: reading.Records, End: reading.Position, Torn: reading.Torn, Replicas: len(reading.State.Replicas),
	}, fault.Wrap("read journal", err)
}

func journalRecord(position int64, sequence uint64, r journal.Record) JournalRecord {
	out := JournalRecord{Position: position, Sequence: sequence, Kind: r.Kind().String(), Replica: r.Replica().String()}
	d := r.Decode()
	number := func(n uint64) *uint64 { return &n }
	switch r.Kind() {
	case journal.KindCreated:
		out.Partition, out.Origin = d.ID.String(), number(uint64(d.Origin.Offset))
	case journal.KindPromise:
		out.Epoch = number(uint64(d.Epoch))
	case journal.KindHW:
		out.HighWatermark = number(uint64(d.HW))
	case journal.KindMark:
		out.Mark = &JournalMark{
			Generation: d.Mark.Generation, Segment: uint64(d.Mark.Base), Offset: uint64(d.Mark.Offset), Position: d.Mark.Position, Chain: d.Mark.Chain,
		}
	case journal.KindFaults:
		for _, f := range d.Faults {
			out.Faults = append(out.Faults, JournalFault{uint64(f.From), uint64(f.To), uint64(f.Base), f.Position, f.Limit})
		}
	case journal.KindRing:
		out.Ring = &JournalRing{Tail: d.Ring.Tail, Used: d.Ring.Used}
	case journal.KindRagged:
		out.Ragged = &d.Ragged
	case journal.KindAcked:
		out.Acked = number(uint64(d.Acked))
	case journal.KindDeleted:
	}
	return out
}
