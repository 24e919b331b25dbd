package replica

import (
	"errors"
	"path"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// ErrInstalled ends a replica whose log begins anew, elsewhere in its directory: it is to be opened again.
var ErrInstalled = errors.New("the replica's log begins anew")

const (
	// installWait is how long a replica gets to take in what was sent before it is sent again.
	installWait = 3 * time.Second
	// installBytesMax bounds what is taken in: a whole snapshot file.
	installBytesMax = segment.MaxStateBytes + 4096
)

// installs is what a replica gives and takes of logs that begin anew.
type installs struct {
	given  map[partition.Member]time.Duration // elapsed: when one was begun
	taken  quorum.Install                     // the head of what comes
	data   []byte
	taking bool // it is all there and with the disk
}

// giveInstall sends another replica what the partition was at the local start, unless that was done a moment ago.
func (r *Replica) giveInstall(e quorum.Reinstall) {
	if began, ok := r.installs.given[e.To]; ok && (r.time.Elapsed-began < installWait || r.out.Parcels(e.To)) {
		return
	}
	if r.installs.given == nil {
		r.installs.given = map[partition.Member]time.Duration{}
	}
	r.installs.given[e.To] = r.time.Elapsed
	r.bulk(func() {
		at, file, state, err := r.wal.StartSnapshot()
		var s *fold.State
		if err == nil {
			s, err = fold.Decode(state)
		}
		r.mail.Post(func() {
			switch {
			case err != nil:
				r.log.Error("cannot give another replica the state at the local start", "node", e.To.Broker, "err", err)
			case r.core.Leads() && r.core.Report().Epoch == e.Epoch && at <= r.core.HighWatermark():
				r.log.Info("gives another replica the state at the local start", "node", e.To.Broker, "offset", at, "bytes", len(file))
				r.out.Parcel(e.To, quorum.Install{
					Epoch: e.Epoch, Round: e.Round, At: at, Chain: s.Chain(), HighWatermark: r.core.HighWatermark(),
				}, file)
			}
		})
	})
}

// takeInstall collects the parts of an Install, whose bytes are not the replica's.
func (r *Replica) takeInstall(m quorum.Install) {
	in := &r.installs
	if in.taking || m.Size > installBytesMax || m.From+uint64(len(m.Part)) > m.Size {
		return
	}
	if m.From == 0 {
		in.taken, in.data = m, nil
	}
	if t := in.taken; t.Epoch != m.Epoch || t.Round != m.Round || t.At != m.At || t.Chain != m.Chain || t.Size != m.Size || m.From != uint64(len(in.data)) {
		return // a part is missing: it comes again from the start
	}
	if in.data = append(in.data, m.Part...); uint64(len(in.data)) == m.Size {
		in.taking, in.taken.Part = true, nil
		// The disk has nothing else to do for this log meanwhile, and whatever the core wants written behind it is void.
		r.io.Change(r.beginAnew, func(err error) {
			if err != nil {
				r.log.Warn("cannot install the state at a later offset", "offset", in.taken.At, "err", err)
				in.taking, in.data = false, nil
				return
			}
			r.log.Info("the log begins anew", "offset", in.taken.At, "epoch", in.taken.Epoch)
			r.fail(ErrInstalled)
		})
	}
}

// beginAnew makes the new log durable beside the old one, has the journal decide for it, and puts it in place. On a worker.
func (r *Replica) beginAnew() error {
	m := &r.installs.taken
	s, err := segment.ParseSnapshot(r.installs.data)
	if err != nil {
		return refused(m, err)
	}
	if state, err := fold.Decode(s.State); err != nil || state.End() != m.At || state.Chain() != m.Chain {
		return refused(m, err)
	}
	at := install.Place{Generation: r.wal.Mark().Generation + 1, At: m.At, Chain: m.Chain}
	if err := install.Prepare(r.deps.FS, path.Dir(r.cfg.Dir), at, r.installs.data); err != nil {
		return err //nolint:wrapcheck // says what was attempted.
	}
	id := r.cfg.Self.Replica
	err = r.deps.Journal.Put(journal.Promise(id, m.Epoch), journal.Mark(id, at.Mark()), journal.HW(id, m.At), journal.Faults(id, nil), journal.Ragged(id, false))
	if err == nil {
		err = r.deps.Journal.Sync()
	}
	if err != nil {
		return fault.Wrap("begin log anew", err)
	}
	return install.Commit(r.deps.FS, path.Dir(r.cfg.Dir), at) //nolint:wrapcheck // says what was attempted.
}

// refused is no failure of the disk: the leader sends it again.
func refused(m *quorum.Install, err error) error {
	return fault.Errorf(fault.Overloaded, "install at %d: it is not the state there: %w", m.At, err)
}
