package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/data"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/lease"
	"github.com/seedqueue/sq/services/broker/internal/pid"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/roster"
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
	disk, state, err := b.openJournal()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fault.Wrap("close journal", disk.Close())) }()
	replicas, err := b.newRoster(life, disk, state)
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
	defer b.closeLease(ctx, registration)
	if err := b.untilEtcdAnswers(ctx, func() error { return registration.Take(ctx) }); err != nil || ctx.Err() != nil {
		return err
	}
	b.roster.Store(replicas)
	defer b.roster.Store(nil)
	b.deps.Log.Info("broker serves", "cluster", life.cluster.String(), "node", b.cfg.NodeID, "incarnation", uint64(life.claim.Incarnation))
	return lifecycle.Run(ctx, b.deps.Log, //nolint:wrapcheck // Run wraps it.
		lifecycle.Part{Name: "lease", Run: registration.Run},
		lifecycle.Part{Name: "roster", Run: replicas.Run},
		lifecycle.Part{Name: "data", Run: func(ctx context.Context) error { return b.serveData(ctx, server) }},
	)
}

// join learns the cluster, takes or checks the directory, and begins a life. It waits for etcd.
func (b *Broker) join(ctx context.Context) (life, error) {
	var l life
	want, err := b.cfg.cluster()
	if err != nil {
		return l, err
	}
	newUUID := uuids(b.deps.Rand)
	err = b.untilEtcdAnswers(ctx, func() error {
		cluster, err := topology.Bootstrap(ctx, b.deps.Store, want, b.deps.Clock, newUUID)
		l.cluster = cluster.Value.ID
		return err //nolint:wrapcheck // says what was attempted.
	})
	if err != nil || ctx.Err() != nil {
		return l, err
	}
	if l.ident, err = ident.Open(b.deps.FS, l.cluster, b.cfg.node(), newUUID, b.deps.Clock.Now()); err != nil {
		return l, err //nolint:wrapcheck // says what was attempted.
	}
	err = b.untilEtcdAnswers(ctx, func() error {
		disks := []topology.Disk{{ID: l.ident.Disk, State: "ok"}}
		l.claim, err = topology.ClaimBroker(ctx, b.deps.Store, b.cfg.node(), b.cfg.Zone, disks)
		return err
	})
	return l, err
}

// untilEtcdAnswers repeats a call until etcd has answered it, or ctx has ended.
func (b *Broker) untilEtcdAnswers(ctx context.Context, call func() error) error {
	silent := false
	for {
		err := call()
		if ctx.Err() != nil || !errors.Is(err, topology.ErrUnavailable) {
			return err
		}
		if !silent {
			b.deps.Log.Warn("etcd does not answer, waiting for it", "etcd", b.cfg.Etcd, "err", err)
			silent = true
		}
		timer := b.deps.Clock.NewTimer(etcdRetry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
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

func (b *Broker) newRoster(l life, disk *journal.Journal, state journal.State) (*roster.Roster, error) {
	sync, err := replica.ParseSyncPolicy(b.cfg.SyncPolicy)
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
		Node: b.cfg.node(), Incarnation: l.claim.Incarnation, Cluster: l.cluster, Sync: sync,
		Redo: redo, Commit: commit.Limits{RingBytes: int64(b.cfg.JournalSize)},
	}, roster.Deps{
		FS: b.deps.FS, Journal: disk, State: state, Store: b.deps.Store, View: b.follower,
		Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
	})
}

// replicas is the roster as the data port sees it.
type replicas struct{ *roster.Roster }

// Replica implements data.Replicas.
func (r replicas) Replica(id partition.ID) (data.Replica, bool) {
	found, ok := r.Roster.Replica(id)
	return found, ok
}

func (b *Broker) newServer(l life, all *roster.Roster) (*data.Server, error) {
	budget := frame.NewBudget(int(b.cfg.BodyMemory))
	used := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sq_broker_body_memory_bytes", Help: "Memory of batches that have arrived and are not yet appended and answered.",
	}, func() float64 { return float64(budget.Used()) })
	if err := b.deps.Metrics.Register(used); err != nil {
		return nil, fault.Wrap("register metrics", err)
	}
	return data.New(data.Config{ //nolint:wrapcheck // says what was attempted.
		Replicas: replicas{all}, ProducerIDs: pid.New(b.deps.Store), Cluster: l.cluster, Node: b.cfg.node(),
		Software: "sq-broker/" + b.deps.Version, Budget: budget,
		Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics, Tracers: b.deps.Tracers,
	})
}

// serveData serves the data port until ctx ends, and then lets what is in flight be answered.
func (b *Broker) serveData(ctx context.Context, server *data.Server) error {
	served := make(chan error, 1)
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	go func() { served <- server.Serve(hard, b.capnp) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(hard, drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		b.deps.Log.Warn("what was in flight is cut off", "timeout", drainTimeout, "err", err)
	}
	return <-served
}

// newLease makes the registration that goes with the disk.
func (b *Broker) newLease(l life) (*lease.Lease, error) {
	live := b.live()
	live.Incarnation = l.claim.Incarnation
	return lease.New(lease.Config{ //nolint:wrapcheck // says what was attempted.
		Store: b.deps.Store, Dir: b.deps.FS, Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
		Params: topology.RegisterParams{
			Key: topology.BrokerLiveKey(b.cfg.node()), TTL: b.cfg.LeaseTTL, Guards: []topology.Compare{l.claim.Guard}, Live: live,
		},
	})
}

// closeLease takes the registration back, so that others need not wait for it to run out.
func (b *Broker) closeLease(ctx context.Context, registration *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := registration.Close(ctx); err != nil {
		b.deps.Log.Warn("the registration was not taken back, it runs out by itself", "err", err)
	}
}

// live is what the broker writes under its /live key.
func (b *Broker) live() topology.Live {
	live := topology.Live{
		ID: strconv.FormatUint(b.cfg.NodeID, 10), Node: b.cfg.node(), Zone: b.cfg.Zone, Software: b.deps.Version,
		Capnp: b.cfg.AdvertiseCapnp, HTTP: b.cfg.AdvertiseHTTP,
	}
	if live.Capnp == "" {
		live.Capnp = reachable(b.capnp.Addr().String(), b.deps.Hostname)
	}
	if live.HTTP == "" {
		live.HTTP = reachable(b.http.Addr().String(), b.deps.Hostname)
	}
	return live
}

// reachable puts the host's name in place of a wildcard.
func reachable(address, hostname string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || hostname == "" || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort(hostname, port)
}

// uuids makes random ones. A source of randomness that fails is beyond help, and random UUIDs must not be guessed.
func uuids(random io.Reader) func() partition.UUID {
	return func() partition.UUID {
		id, err := uuid.NewRandomFromReader(random)
		if err != nil {
			panic(fmt.Sprintf("broker: read randomness: %v", err))
		}
		return partition.UUID(id)
	}
}
