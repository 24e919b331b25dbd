package replica

import (
	"errors"
	"path"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// ErrInstalled ends a replica whose log is another one now: it begins anew elsewhere in its directory, or what it says can be read again. It is to
// be opened again.
var ErrInstalled = errors.New("the replica's log has changed")

// installWait is how long a replica gets to take in what was sent before it is sent again.
const installWait = 3 * time.Second

// installs is what a replica gives and takes of logs that begin anew.
type installs struct {
	given  map[partition.Member]time.Duration // elapsed: when one was begun
	taken  install.Incoming
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

// takeInstall collects the parts of an Install, whose bytes are not the replica's, and has the log begun anew when all are there.
func (r *Replica) takeInstall(m quorum.Install) {
	in := &r.installs.taken
	if r.installs.taking || !in.Add(m) {
		return
	}
	r.installs.taking = true
	begin := func() error {
		return in.Begin(r.deps.FS, path.Dir(r.cfg.Dir), r.deps.Journal, r.cfg.Self.Replica, r.wal.Mark().Generation+1)
	}
	// The disk has nothing else to do for this log meanwhile, and whatever the core wants written behind it is void.
	r.io.Change(begin, func(err error) {
		r.installs.taking = false
		if err != nil {
			r.log.Warn("cannot begin the log anew at a later offset", "offset", m.At, "err", err)
			return
		}
		r.log.Info("the log begins anew", "offset", m.At, "epoch", m.Epoch)
		r.fail(ErrInstalled)
	})
}
