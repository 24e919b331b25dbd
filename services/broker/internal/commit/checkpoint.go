package commit

import (
	"cmp"
	"slices"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// makeRoom begins what rounds to come need, in the background: the ring where several logs ask, or a checkpoint.
func (c *Committer) makeRoom(ring *journal.Ring, asking int) {
	switch {
	case c.cfg.Mode == Never:
	case ring == nil:
		if c.cfg.Mode == Always || asking > 1 {
			c.startRing()
		}
	default:
		if used, size := ring.Used(); used > size/2 || c.dirty() > c.limits.DirtyLogs {
			c.startCheckpoint(ring)
		}
	}
}

func (c *Committer) dirty() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.dirty)
}

// startRing has the ring made and begun.
func (c *Committer) startRing() {
	c.mu.Lock()
	begin := !c.mu.noRing && !c.mu.closed
	c.mu.noRing = true
	if begin {
		c.running.Add(1)
	}
	c.mu.Unlock()
	if !begin {
		return
	}
	c.cfg.Workers.DoBulk(func() {
		defer c.running.Done()
		_ = c.begin() // told
	})
}

// begin has the ring ready. Without one every append syncs its file.
func (c *Committer) begin() error {
	ring, err := c.cfg.Journal.BeginRing(c.limits.RingBytes)
	if err != nil {
		c.cfg.Log.Warn("there is no ring for redo, every append syncs its file", "err", err)
		if fault.Is(err, fault.DiskPoisoned) {
			c.failed(err)
		}
		return err
	}
	c.mu.Lock()
	c.mu.ring = ring
	c.mu.Unlock()
	return nil
}

func (c *Committer) failed(err error) {
	if c.cfg.Failed != nil {
		c.cfg.Failed(err)
	}
}

// startCheckpoint has the files synced that the ring holds bytes of, and then the room given back. One runs at a time.
func (c *Committer) startCheckpoint(ring *journal.Ring) {
	c.mu.Lock()
	if c.mu.busy || c.mu.closed {
		c.mu.Unlock()
		return
	}
	c.mu.busy = true
	k := &checkpoint{c: c, ring: ring}
	for s := range c.mu.dirty {
		k.mu.todo = append(k.mu.todo, s)
	}
	slices.SortFunc(k.mu.todo, func(a, b *Seat) int { return cmp.Compare(b.number, a.number) }) // the same order in every run
	syncers := min(syncersMax, len(k.mu.todo)+1)
	k.mu.working = syncers
	c.running.Add(syncers)
	c.mu.Unlock()
	for range syncers {
		c.cfg.Workers.DoBulk(k.work)
	}
}

// checkpoint is one at work.
type checkpoint struct {
	c    *Committer
	ring *journal.Ring
	mu   struct {
		sync.Mutex
		todo    []*Seat
		working int
	}
}

// work syncs files until none is left; the last one to end gives the room back.
func (k *checkpoint) work() {
	defer k.c.running.Done()
	for s := k.take(); s != nil; s = k.take() {
		if err := k.c.syncSeat(s); err != nil && !fault.Is(err, fault.Unavailable) {
			k.c.failed(err) // its redo stays
		}
	}
	k.mu.Lock()
	k.mu.working--
	last := k.mu.working == 0
	k.mu.Unlock()
	if !last {
		return
	}
	k.free()
	k.c.mu.Lock()
	k.c.mu.busy = false
	k.c.mu.Unlock()
}

func (k *checkpoint) take() *Seat {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.mu.todo)
	if n == 0 {
		return nil
	}
	s := k.mu.todo[n-1]
	k.mu.todo = k.mu.todo[:n-1]
	return s
}

// free gives back the groups that no dirty log needs.
func (k *checkpoint) free() {
	c := k.c
	tail := k.ring.Next()
	c.mu.Lock()
	for s := range c.mu.dirty {
		tail = min(tail, s.oldest)
	}
	c.mu.Unlock()
	err := k.ring.Free(tail)
	switch {
	case err == nil:
		c.metrics.checkpoints.Inc()
		used, _ := k.ring.Used()
		c.metrics.used.Set(float64(used))
	case fault.Is(err, fault.DiskPoisoned):
		c.failed(err)
	default:
		c.cfg.Log.Warn("cannot give room in the journal back", "err", err)
	}
}
