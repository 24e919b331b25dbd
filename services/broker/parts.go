package broker

import (
	"context"
	"errors"
	"io/fs"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/durability"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/lease"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/roster"
	"github.com/seedqueue/sq/services/broker/internal/scrub"
)

// life is who this process is: what it learned from etcd and its directory at start.
type life struct {
	cluster partition.UUID
	ident   ident.Ident
	claim   topology.Claim
}

// serve joins the cluster, opens the disk, and runs what needs both until ctx ends.
func (b *Broker) serve(ctx context.Context) (err error) {
	life, err := b.join(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	defer func() { b.noteFailure(ctx, life, err) }() // behind TakeBack: it ends the claim
	watch, err := b.newDisk(life)
	if err != nil {
		return err
	}
	stream, state, err := b.openJournal()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fault.Wrap("close journal", stream.Close())) }()
	peers, err := b.newPeers(life)
	if err != nil {
		return err
	}
	replicas, err := b.newRoster(life, watch, peers, stream, state)
	if err != nil {
		return err
	}
	server, err := b.newServer(life, replicas)
	if err != nil {
		return err
	}
	registration, err := b.newLease(life)
	if err != nil {
		return err
	}
	defer b.deps.TakeBack(ctx, registration)
	if err := b.deps.Persist(ctx, b.cfg.Config, func() error { return registration.Take(ctx) }); err != nil || ctx.Err() != nil {
		return err
	}
	reports, err := b.newHerald(life, watch, registration, peers, replicas)
	if err != nil {
		return err
	}
	scrubber, err := b.newScrubber(replicas)
	if err != nil {
		return err
	}
	b.serving.Store(&serving{watch, replicas})
	defer b.serving.Store(nil)
	b.deps.Log.Info("broker serves", "cluster", life.cluster.String(), "node", b.cfg.NodeID, "incarnation", uint64(life.claim.Incarnation))
	return lifecycle.Run(ctx, b.deps.Log, //nolint:wrapcheck // Run wraps it.
		lifecycle.Part{Name: "disk", Run: watch.Run},
		lifecycle.Part{Name: "lease", Run: poisons(watch, registration.Run)},
		lifecycle.Part{Name: "roster", Run: replicas.Run},
		lifecycle.Part{Name: "peers", Run: peers.Run},
		lifecycle.Part{Name: "herald", Run: reports.Run},
		lifecycle.Part{Name: "scrub", Run: scrubber},
		lifecycle.Part{Name: "data", Run: func(ctx context.Context) error { return b.deps.ServeFrames(ctx, server, b.ports.Capnp) }},
		lifecycle.Part{Name: "drain", Run: b.drain(reports)}, // the first to stop
	)
}

// poisons has a part that a failed disk ends say so.
func poisons(watch *disk.Watch, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		if fault.Is(err, fault.DiskPoisoned) {
			watch.Poison(err)
		}
		return err
	}
}

// join learns the cluster, takes or checks the directory, and begins a life. It waits for etcd.
func (b *Broker) join(ctx context.Context) (life, error) {
	var l life
	cluster, err := b.deps.Join(ctx, b.cfg.Config)
	if err != nil || ctx.Err() != nil {
		return l, err //nolint:wrapcheck // says what was attempted.
	}
	l.cluster = cluster.ID
	if l.ident, err = ident.Open(b.deps.FS, l.cluster, b.cfg.node(), b.deps.NewUUID, b.deps.Clock.Now()); err != nil {
		return l, err //nolint:wrapcheck // says what was attempted.
	}
	err = b.deps.Persist(ctx, b.cfg.Config, func() (err error) {
		disks := []topology.Disk{{ID: l.ident.Disk, State: topology.DiskOK, Forgive: b.cfg.UseRetiredDisk}}
		l.claim, err = topology.ClaimBroker(ctx, b.deps.Store, b.cfg.node(), b.cfg.Zone, disks)
		return err
	})
	return l, err
}

// noteFailure tells the cluster of a disk that has ended this life, as well as it can.
func (b *Broker) noteFailure(ctx context.Context, l life, cause error) {
	if !fault.Is(cause, fault.DiskPoisoned) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	d, err := topology.FailDisk(ctx, b.deps.Store, b.cfg.node(), l.claim, l.ident.Disk, b.deps.Clock.Now())
	switch {
	case err != nil:
		b.deps.Log.Warn("cannot note in etcd that the disk has failed", "disk", l.ident.Disk.String(), "err", err)
	case d.State == topology.DiskRetired:
		b.deps.Log.Error("the disk has failed twice within a day and is retired: the broker does not start with it again", "disk", l.ident.Disk.String(),
			"dir", b.deps.FS.Name("."), "err", cause)
	}
}

// newDisk begins to watch the data disk. It comes before whatever needs room on it.
func (b *Broker) newDisk(l life) (*disk.Watch, error) {
	failures := 0
	for _, d := range l.claim.Disks {
		for _, at := range d.Failures {
			if b.deps.Clock.Now().Sub(at) < topology.DiskMemory {
				failures++
			}
		}
	}
	return disk.New(disk.Config{ //nolint:wrapcheck // says what was attempted.
		Failures: failures,
		FS:       b.deps.FS, Refuse: uint64(b.cfg.DiskRefuse), Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
	})
}

// openJournal opens the disk's replica-state stream. It is made only where no replica can have been before it: the roster makes its directory
// behind it.
func (b *Broker) openJournal() (*journal.Journal, journal.State, error) {
	_, err := b.deps.FS.Stat("replicas")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, journal.State{}, fault.Errorf(fault.DiskPoisoned, "look at %s: %w", b.deps.FS.Name("replicas"), err)
	}
	disk, state, err := journal.Open(journal.Config{FS: b.deps.FS, Dir: "journal", Log: b.deps.Log, Create: err != nil, Rand: b.deps.Rand})
	return disk, state, fault.Wrap("open journal", err)
}

func (b *Broker) newRoster(l life, watch *disk.Watch, peers *peer.Peers, stream *journal.Journal, state journal.State) (*roster.Roster, error) {
	sync, err := durability.Parse(b.cfg.SyncPolicy)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "sync-policy: %w", err)
	}
	if !sync.EveryBatch() {
		b.deps.Log.Warn("records are acknowledged before they are synced: a power cut loses some", "policy", sync.String())
	}
	redo, err := commit.ParseMode(b.cfg.Journal)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "journal: %w", err)
	}
	return roster.New(roster.Config{ //nolint:wrapcheck // says what was attempted.
		Node: b.cfg.node(), Incarnation: l.claim.Incarnation, Claimed: l.claim.Guard.Want, Cluster: l.cluster, Sync: sync,
		CompactRate: int64(b.cfg.CompactRate), CompactMemory: int64(b.cfg.CompactMemory), CatchUpRate: int64(b.cfg.CatchUpRate),
		Redo: redo, Commit: commit.Limits{RingBytes: int64(b.cfg.JournalSize)},
	}, roster.Deps{
		FS: b.deps.FS, Disk: watch, Journal: stream, State: state, Store: b.deps.Store, View: b.follower,
		Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
		Peers: func(id partition.ID) outbox.Peers { return peers.Of(id) },
	})
}

// newScrubber makes what reads sealed segments again; where that is turned off, what waits for the end of ctx.
func (b *Broker) newScrubber(all *roster.Roster) (func(context.Context) error, error) {
	if b.cfg.ScrubRate == 0 {
		return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
	}
	s, err := scrub.New(scrub.Config{Rate: int64(b.cfg.ScrubRate), Interval: b.cfg.ScrubInterval}, scrub.Deps{
		FS: b.deps.FS, Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics, Rand: b.deps.Rand, Do: all.Bulk,
		Segments: func() []scrub.Segment { return sealedSegments(all) },
		Look: func(s scrub.Segment) {
			if r, ok := all.Replica(s.Partition); ok && r.ID() == s.Replica {
				r.Examine(s.Base)
			}
		},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	return s.Run, nil
}

// sealedSegments lists what is sealed on the disk.
func sealedSegments(all *roster.Roster) []scrub.Segment {
	var out []scrub.Segment
	for _, r := range all.Serving() {
		dir, sealed := r.OnDisk()
		for _, s := range sealed {
			out = append(out, scrub.Segment{
				Replica: r.ID(), Partition: r.Partition(), File: dir + "/" + segment.Name(s.Base, segment.LogPart),
				Base: s.Base, End: s.End, Size: s.Size, Tag: s.Tag, Chain: s.Chain, SHA256: s.SHA256,
			})
		}
	}
	return out
}

// newLease makes the registration that goes with the disk.
func (b *Broker) newLease(l life) (*lease.Lease, error) {
	live := b.deps.Live(b.cfg.Instance(), b.cfg.Config, b.ports)
	live.Node, live.Incarnation = b.cfg.node(), l.claim.Incarnation
	return lease.New(lease.Config{ //nolint:wrapcheck // says what was attempted.
		Store: b.deps.Store, Dir: b.deps.FS, Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
		Params: topology.RegisterParams{
			Key: topology.BrokerLiveKey(b.cfg.node()), TTL: b.cfg.LeaseTTL, Guards: []topology.Compare{l.claim.Guard}, Live: live,
		},
	})
}
