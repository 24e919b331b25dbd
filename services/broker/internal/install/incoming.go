package install

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// bytesMax bounds what is taken in: a whole snapshot file.
const bytesMax = segment.MaxStateBytes + 4096

// Incoming is an Install whose parts come. The zero value has none.
type Incoming struct {
	head quorum.Install
	data []byte // grows by what comes, not by what is said
}

// Add takes a part in, whose bytes it copies, and tells whether all are there. A part that does not go on is ignored: it comes again from the
// start.
func (in *Incoming) Add(m quorum.Install) (whole bool) {
	if m.Size > bytesMax || m.From > m.Size || uint64(len(m.Part)) > m.Size-m.From {
		return false
	}
	if m.From == 0 {
		in.head, in.data = m, nil
		in.head.Part = nil
	}
	if h := &in.head; h.Epoch != m.Epoch || h.Round != m.Round || h.At != m.At || h.Chain != m.Chain || h.Size != m.Size || m.From != uint64(len(in.data)) {
		return false
	}
	in.data = append(in.data, m.Part...)
	return uint64(len(in.data)) == m.Size
}

// Begin makes the new log durable beside the old one, has the journal decide for it, and puts it in place; the replica has promised the
// Install's epoch then. Not beside any other change of the log. What came is gone then. Errors: Overloaded where it is not the state at that
// place, DiskFull, DiskPoisoned.
func (in *Incoming) Begin(fsys vfs.FS, dir string, j *journal.Journal, replica partition.UUID, generation uint64) error {
	m, data := in.head, in.data
	in.data = nil
	s, err := segment.ParseSnapshot(data)
	if err == nil {
		var state *fold.State
		if state, err = fold.Decode(s.State); err == nil && (state.End() != m.At || state.Chain() != m.Chain) {
			err = fault.Errorf(fault.Corrupt, "it is of %d", state.End())
		}
	}
	if err != nil {
		return fault.Errorf(fault.Overloaded, "begin log anew at %d: the state is not that of there: %w", m.At, err)
	}
	at := Place{Generation: generation, At: m.At, Chain: m.Chain}
	if err := Prepare(fsys, dir, at, data); err != nil {
		return err
	}
	err = j.Put(journal.Promise(replica, m.Epoch), journal.Mark(replica, at.Mark()), journal.HW(replica, m.At), journal.Faults(replica, nil),
		journal.Ragged(replica, false))
	if err == nil {
		err = j.Sync()
	}
	if err != nil {
		return fault.Wrap("begin log anew", err)
	}
	return Commit(fsys, dir, at)
}
