package commit

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// Config says how a disk's appends become durable. Journal, Workers, Log and Metrics are needed.
type Config struct {
	Journal *journal.Journal // what Open found in it has been replayed
	Workers *workers.Pool
	Mode    Mode
	Limits  Limits
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Failed hears of a disk that failed in the background. It must not block. May be nil.
	Failed func(error)
}

// Committer is the commit of one disk. New starts its goroutine, Close ends it.
type Committer struct {
	cfg     Config
	limits  Limits
	metrics *metrics
	wake    chan struct{}
	stop    chan struct{}
	running sync.WaitGroup // the goroutine, and jobs in the background
	seats   atomic.Uint64
	syncs   sync.WaitGroup // files that are being synced

	// The goroutine's.
	rounds  uint64
	asks    []ask
	group   []*request
	entries []journal.Redo

	mu struct {
		sync.Mutex
		pending []*request
		syncing int
		dirty   map[*Seat]struct{} // have bytes in the ring that their file may lack
		ring    *journal.Ring      // nil: not begun
		noRing  bool               // it cannot be had, or is being begun
		busy    bool               // a checkpoint runs
		closed  bool
	}
}

// Seat is a log's place in the commit.
type Seat struct {
	c       *Committer
	replica partition.UUID
	log     *wal.Log
	number  uint64 // of the seats of c
	asked   uint64 // the last round that it was part of; the committer's goroutine's

	// Guarded by c.mu.
	inFlight       bool
	oldest, newest uint64 // groups that hold what the file may lack; 0 = none
}

// request is a Sync that is not answered.
type request struct {
	seat *Seat
	done func(error)
}

// New starts a committer.
func New(cfg Config) (*Committer, error) {
	c, err := ByHand(cfg)
	if err == nil {
		c.running.Go(c.run)
	}
	return c, err
}

// ByHand makes a committer without a goroutine, whose rounds Step runs.
func ByHand(cfg Config) (*Committer, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "register commit metrics: %w", err)
	}
	c := &Committer{cfg: cfg, limits: limits, metrics: m, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	c.mu.dirty = map[*Seat]struct{}{}
	return c, nil
}

// Join gives a log its seat. It belongs to the log's replica, which leaves when the log is closed.
func (c *Committer) Join(replica partition.UUID, log *wal.Log) *Seat {
	return &Seat{c: c, replica: replica, log: log, number: c.seats.Add(1)}
}

// Sync makes everything durable that was written to the log when it was called, and then calls done.
func (s *Seat) Sync(done func(error)) {
	c := s.c
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		done(fault.Errorf(fault.Unavailable, "sync log: the committer is closed"))
		return
	}
	c.mu.pending = append(c.mu.pending, &request{s, done})
	c.mu.Unlock()
	c.signal()
}

// Leave tells that the log is closed. durable: its files hold everything; otherwise the ring keeps what it has of it.
func (s *Seat) Leave(durable bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if durable {
		delete(s.c.mu.dirty, s)
	}
}

func (c *Committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Due tells whether Step has something to do.
func (c *Committer) Due() bool { return len(c.wake) > 0 }

// Step runs rounds by hand if something has come, and tells whether it did. Only with ByHand.
func (c *Committer) Step() bool {
	select {
	case <-c.wake:
		for c.round() {
			continue
		}
		return true
	default:
		return false
	}
}

func (c *Committer) run() {
	for {
		select {
		case <-c.wake:
			for c.round() {
				continue
			}
		case <-c.stop:
			return
		}
	}
}

// round makes durable what has come, or has it done. It tells whether there is more that need not wait for a file's sync.
func (c *Committer) round() bool {
	c.mu.Lock()
	pending := c.mu.pending
	c.mu.pending = nil
	ring := c.mu.ring
	d := disk{mode: c.cfg.Mode, syncing: c.mu.syncing, limits: c.limits}
	c.asks = c.asks[:0]
	c.rounds++
	for _, r := range pending {
		c.asks = append(c.asks, ask{busy: r.seat.inFlight || r.seat.asked == c.rounds})
		r.seat.asked = c.rounds
	}
	c.mu.Unlock()
	if len(pending) == 0 {
		return false
	}
	if ring != nil {
		d.room = ring.Room() - journal.GroupOverhead(ring.Repeats())
	}
	for i, r := range pending {
		if span, ok := r.seat.log.Unpersisted(); ok {
			c.asks[i].bytes = span.Length
		}
	}
	paths := plan(d, c.asks, journal.EntryBytes)
	c.makeRoom(ring, len(paths))
	var kept []*request
	c.group = c.group[:0]
	for i, p := range paths {
		switch p {
		case later:
			kept = append(kept, pending[i])
		case direct:
			c.syncFile(pending[i])
		case redo:
			c.group = append(c.group, pending[i])
		}
	}
	if len(kept) > 0 {
		c.mu.Lock()
		c.mu.pending = append(kept, c.mu.pending...)
		c.mu.Unlock()
	}
	if len(c.group) == 0 {
		return false
	}
	c.journal(ring)
	return true
}

// syncFile has a worker sync a log's file.
func (c *Committer) syncFile(r *request) {
	c.mu.Lock()
	r.seat.inFlight = true
	c.mu.syncing++
	c.mu.Unlock()
	c.metrics.direct.Inc()
	c.syncs.Add(1)
	c.cfg.Workers.Do(func() {
		defer c.syncs.Done()
		err := c.syncSeat(r.seat)
		c.mu.Lock()
		r.seat.inFlight = false
		c.mu.syncing--
		c.mu.Unlock()
		r.done(err)
		c.signal()
	})
}

// syncSeat syncs a log's file; what the ring holds of it until now is then not needed any more.
func (c *Committer) syncSeat(s *Seat) error {
	covered := c.next()
	if err := s.log.Sync(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.newest < covered:
		s.oldest, s.newest = 0, 0
		delete(c.mu.dirty, s)
	case s.oldest < covered:
		s.oldest = covered
	}
	return nil
}

// next is the sequence of the ring's next group: what older ones hold was written to the files before.
func (c *Committer) next() uint64 {
	c.mu.Lock()
	ring := c.mu.ring
	c.mu.Unlock()
	if ring == nil {
		return 0
	}
	return ring.Next()
}

// journal makes a group durable by the ring.
func (c *Committer) journal(ring *journal.Ring) {
	group := c.group[:0:len(c.group)]
	c.entries = c.entries[:0]
	for _, r := range c.group {
		span, ok := r.seat.log.Unpersisted()
		if !ok || span.Length > c.limits.GroupBytes {
			c.syncFile(r) // a checkpoint has synced it meanwhile
			continue
		}
		group = append(group, r)
		c.entries = append(c.entries, journal.Redo{Replica: r.seat.replica, Redo: span})
	}
	if len(group) == 0 {
		return
	}
	// Before the write: a checkpoint that does not know of the group must not free it.
	next := ring.Next()
	c.mu.Lock()
	for _, r := range group {
		s := r.seat
		s.newest = next
		if s.oldest == 0 {
			s.oldest = next
		}
		c.mu.dirty[s] = struct{}{}
	}
	c.mu.Unlock()
	_, err := ring.Write(c.entries, func(i int, p []byte) error { return group[i].seat.log.ReadRedo(c.entries[i].Redo, p) })
	if err != nil {
		c.fallBack(group, err)
		return
	}
	bytes := int64(0)
	for i, r := range group {
		bytes += c.entries[i].Length
		r.seat.log.Journaled(c.entries[i].Redo)
		r.done(r.seat.log.Err())
	}
	used, _ := ring.Used()
	c.metrics.groups.Inc()
	c.metrics.entries.Observe(float64(len(group)))
	c.metrics.bytes.Add(float64(bytes))
	c.metrics.used.Set(float64(used))
}

// fallBack syncs the files of a group that the ring did not take, unless the journal is poisoned.
func (c *Committer) fallBack(group []*request, err error) {
	if fault.Is(err, fault.DiskPoisoned) && c.cfg.Journal.Err() != nil {
		for _, r := range group {
			r.done(err)
		}
		return
	}
	if !errors.Is(err, journal.ErrRingFull) {
		c.cfg.Log.Warn("the journal does not take redo, files are synced", "err", err)
	}
	for _, r := range group {
		c.syncFile(r)
	}
}

// Close waits for what is under way and ends the goroutine. All seats have been left. Where every log was closed durably, the next start
// need not read the ring.
func (c *Committer) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	pending := c.mu.pending
	c.mu.pending = nil
	c.mu.Unlock()
	close(c.stop)
	c.running.Wait()
	c.syncs.Wait()
	for _, r := range pending {
		r.done(fault.Errorf(fault.Unavailable, "sync log: the committer is closed"))
	}
	if c.mu.ring != nil && len(c.mu.dirty) == 0 && c.cfg.Journal.Err() == nil {
		return c.mu.ring.Rest()
	}
	return nil
}
