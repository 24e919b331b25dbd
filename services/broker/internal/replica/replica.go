package replica

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compaction"
	"github.com/seedqueue/sq/services/broker/internal/damage"
	"github.com/seedqueue/sq/services/broker/internal/errand"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/inbox"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/pace"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/readindex"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/waitlist"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/wallclock"
	"github.com/seedqueue/sq/services/broker/internal/writer"
)

// Replica is one replica of one partition. Open makes one, Close ends it.
type Replica struct {
	cfg  Config
	deps Deps
	log  *slog.Logger
	wal  *wal.Log
	seat *commit.Seat
	// damage is what is known to be bad in wal.
	damage *damage.Keeper

	mail   *inbox.Box[queued]
	view   atomic.Pointer[view]
	topic  atomic.Pointer[topology.Topic]
	pace   pace.Pacer // of ticks
	opened time.Time

	stopping chan struct{} // closed by Close
	stopOnce sync.Once
	done     chan struct{}  // closed when the goroutine has ended
	inFlight sync.WaitGroup // jobs with the workers, but for the writer's
	errands  errand.Runner

	// What follows belongs to the replica's goroutine.
	core       *quorum.State
	blind      bool   // the fold has stopped at damage, and so knows less than the core
	lossy      bool   // the epoch began without records that were acknowledged before
	unfit      string // why this replica does not lead although it should; empty = it may
	fold       *fold.State
	closing    sealed.Closing
	now        *wallclock.Clock
	time       wallclock.Reading
	queue      []queued                               // published, not yet appended
	waiting    *waitlist.List[func(Published, error)] // appended, not yet committed
	release    []func()                               // of the group being appended
	io         *writer.Writer
	out        *outbox.Outbox
	arrived    func() // gives back what was delivered, unless the log takes it
	reads      readindex.Queue
	retryAt    time.Duration // elapsed: when Seals are tried again that found no room
	admin      petition.Queue
	installs   installs
	mending    damage.Mending
	tier       tierState
	seals      []sealWaiter
	kept       housekeeper
	compaction *compaction.Compaction
	failure    error
	changed    bool // tell deps.Changed at the end of the round
	calls      []func()
	counting   quorum.Counting
	ackAs      wirecapnp.Durability
	synced     time.Duration // elapsed at the last sync
}

// view is what readers see, immutable.
type view struct {
	epoch       partition.Epoch
	active      bool
	hw          partition.Offset
	readable    partition.Offset // what may be read here: committed and written
	end         partition.Offset
	logStart    partition.Offset
	localStart  partition.Offset
	sealedEnd   partition.Offset
	tierEnd     partition.Offset
	exportedEnd partition.Offset
	durability  wirecapnp.Durability
	harvest     bool // there is work for a tierer
	unfit       string
	damaged     int // ranges
	lossy       bool
	promised    partition.Epoch
	leader      partition.NodeID
	stopped     bool
	changed     chan struct{}
}

// Partition names the partition.
func (r *Replica) Partition() partition.ID { return r.cfg.Partition }

// ID names the replica.
func (r *Replica) ID() partition.UUID { return r.cfg.Self.Replica }

// Assign tells the replica what the topology says about its partition, as of the revision of its key.
func (r *Replica) Assign(a topology.Assignment, revision int64) {
	r.mail.Post(func() {
		r.unfit = ""
		r.step(quorum.Assigned{Assignment: a, Revision: revision, Time: r.time.Micros})
	})
}

// Configure tells the replica its topic's settings.
func (r *Replica) Configure(t topology.Topic) {
	if old := r.topic.Load(); old != nil && *old == t {
		return
	}
	r.topic.Store(&t)
	r.mail.Post(func() {
		ev := quorum.Configured{Cut: cutPolicy(t), SyncEveryGroup: r.cfg.Sync.EveryBatch()}
		r.counting, r.ackAs = r.cfg.Sync.Counting(t.Durability)
		ev.Counting = r.counting
		r.step(ev)
	})
}

func cutPolicy(t topology.Topic) quorum.CutPolicy {
	p := quorum.CutPolicy{Bytes: t.SegmentBytes, Age: time.Duration(t.SegmentAge)}
	if p.Bytes <= 0 {
		p.Bytes = segmentBytesDefault
	}
	if lag := time.Duration(t.TierMaxLag); lag > 0 && t.Tiers() && (p.Age == 0 || lag < p.Age) {
		p.Age = lag
	}
	return p
}

// Tick lets time pass. It is cheap to call where nothing is due.
func (r *Replica) Tick() {
	if r.pace.Due(r.deps.Clock.Now().Sub(r.opened)) {
		r.mail.Signal()
	}
}

// Active tells whether the replica leads and serves.
func (r *Replica) Active() bool { return r.view.Load().active }

// Close stops the replica: nothing is admitted any more, what is being written is finished and answered, the rest gets OutcomeUnknown.
func (r *Replica) Close() {
	r.stopOnce.Do(func() { close(r.stopping) })
	<-r.done
}

// Fail stops the replica because its disk has failed elsewhere: nothing is written or synced any more, and whoever waits gets OutcomeUnknown.
func (r *Replica) Fail(cause error) {
	r.mail.Post(func() {
		if r.failure == nil {
			r.failure = cause
			r.io.Stop()
			r.wal.Poison(cause)
		}
	})
}

// run is the replica's goroutine.
func (r *Replica) run() {
	defer close(r.done)
	for r.failure == nil {
		select {
		case <-r.mail.Wake():
			r.round()
		case <-r.stopping:
			r.shutdown()
			return
		}
	}
	r.stop()
}

// Due tells whether Step has something to do. Only with Deps.Errands.
func (r *Replica) Due() bool { return r.failure == nil && len(r.mail.Wake()) > 0 }

// Step runs one round by hand if something has come.
func (r *Replica) Step() {
	if r.Due() {
		<-r.mail.Wake()
		if r.round(); r.failure != nil {
			r.end()
		}
	}
}

// round takes in what has come, acts, and shows the result.
func (r *Replica) round() {
	r.takeIn()
	if r.time.Jump != 0 {
		r.deps.Metrics.clockJumps.Inc()
		r.log.Warn("wall clock stepped, expiry does not follow", "step", r.time.Jump)
	}
	r.tick()
	r.propose()
	r.io.Dispatch()
	r.out.Flush()
	r.show()
	r.plan()
}

// takeIn does what has come.
func (r *Replica) takeIn() {
	r.time = r.now.Read()
	r.calls, r.queue = r.mail.Take(r.calls, r.queue)
	for i, call := range r.calls {
		call()
		r.calls[i] = nil
	}
}

// tick passes time on if it is due.
func (r *Replica) tick() {
	if !r.pace.Due(r.time.Elapsed) {
		return
	}
	r.step(quorum.Tick{Elapsed: r.time.Elapsed, Time: r.time.Micros})
	r.syncByInterval()
	r.waiting.Expire(fault.Errorf(fault.OutcomeUnknown, "publish: no majority answered in time"))
	r.keepHouse()
	t := r.topic.Load()
	r.pace.Looked(r.time.Elapsed, uint64(r.core.End()), durationOf(t.SegmentAge), durationOf(t.RetentionTime), durationOf(t.LocalTime), durationOf(t.TierMaxLag))
}

// plan brings the next tick forward where something waits for it.
func (r *Replica) plan() {
	r.pace.Moved(r.time.Elapsed, uint64(r.core.End()))
	if r.kept.due {
		r.pace.Need(r.time.Elapsed, pace.First)
	}
	if r.waiting.Len() > 0 || r.core.Report().Role == "candidate" {
		r.pace.Need(r.time.Elapsed, tickActive)
	}
	if wait, ok := r.core.Overdue(); ok {
		r.pace.Need(r.time.Elapsed, wait)
	}
	if i := r.cfg.Sync.Interval; i > 0 && r.io.Unsynced() {
		r.pace.Need(r.time.Elapsed, i)
	}
}

// step runs the core and carries out what it wants.
func (r *Replica) step(ev quorum.Event) {
	for _, effect := range r.core.Step(ev) {
		r.apply(effect)
	}
}

// show publishes a new view if something in it changed.
func (r *Replica) show() {
	old := r.view.Load()
	report := r.core.Report()
	next := view{
		epoch: report.LastEpoch, active: r.core.Leads() && r.failure == nil,
		hw: report.HighWatermark, readable: min(report.HighWatermark, report.Written), end: report.End,
		logStart: r.fold.Tier.LogStart(), localStart: r.wal.Start(), sealedEnd: r.tier.marked, tierEnd: r.fold.Tier.TierEnd(),
		exportedEnd: r.tier.exportedEnd, durability: r.ackAs, harvest: r.hasHarvest(), unfit: r.unfit,
		damaged: len(r.wal.Faults()), lossy: r.lossy, promised: report.Promised, leader: r.core.Assigned().Leader.Broker,
		stopped: r.failure != nil || report.Quarantined,
	}
	if old != nil {
		next.changed = old.changed
		if next == *old {
			return
		}
	}
	next.changed = make(chan struct{})
	r.view.Store(&next)
	if old == nil {
		return
	}
	close(old.changed)
	if r.deps.Changed != nil && (next.harvest != old.harvest || next.active != old.active || r.changed) {
		r.changed = false
		r.deps.Changed()
	}
}

// fail stops the replica because of its disk or its log (doc.go 5).
func (r *Replica) fail(err error) {
	if r.failure != nil {
		return
	}
	r.failure = err
	r.io.Stop()
	if r.deps.Failed != nil {
		r.deps.Failed(err)
	}
}

// shutdown finishes what is with the disk, syncs, and stops.
func (r *Replica) shutdown() {
	r.errands.Stop()
	r.refuseQueue(fault.Errorf(fault.Unavailable, "publish: the broker is stopping"))
	if r.failure == nil {
		report := r.core.Report()
		r.io.Sync(report.Generation, report.End)
		r.io.Dispatch()
	}
	for r.io.Busy() && r.failure == nil {
		<-r.mail.Wake()
		r.takeIn()
		r.refuseQueue(fault.Errorf(fault.Unavailable, "publish: the broker is stopping"))
		r.io.Dispatch()
	}
	r.stop()
}

// stop ends the replica: everything that waits is told, the log is closed.
func (r *Replica) stop() {
	r.end()
	r.errands.Wait()
	r.inFlight.Wait()
	r.io.Wait()
	err := r.wal.Close()
	if err != nil && r.failure == nil {
		r.log.Warn("cannot close log", "err", err)
	}
	r.seat.Leave(err == nil)
}

// end tells everything that waits.
func (r *Replica) end() {
	r.errands.Stop()
	cause := cmp.Or(r.failure, error(errStopped))
	calls, publishes := r.mail.Close()
	r.queue = append(r.queue, publishes...)
	for _, call := range calls {
		call()
	}
	r.refuseQueue(r.refusal(cause))
	r.waiting.All(&fault.Error{Kind: fault.OutcomeUnknown, Op: "publish", Err: cause})
	r.admin.Stop(&fault.Error{Kind: fault.OutcomeUnknown, Op: "append control batch", Err: cause})
	r.failSeals(cause)
	r.reads.Fail(fault.Wrap("confirm that this replica leads", cause))
	r.io.Stop()
	old := r.view.Load()
	next := *old
	next.active, next.harvest, next.stopped, next.changed = false, false, true, make(chan struct{})
	r.view.Store(&next)
	close(old.changed)
}

var errStopped = fault.Errorf(fault.Unavailable, "the replica is closed")

// refusal is what a batch gets that was certainly not appended because the replica stopped.
func (r *Replica) refusal(cause error) error {
	kind := fault.Unavailable
	if fault.Is(cause, fault.DiskPoisoned) {
		kind = fault.DiskPoisoned
	}
	return &fault.Error{Kind: kind, Op: "publish", Err: cause}
}
