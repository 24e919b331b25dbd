package peer

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// target is where a broker's life is reached; zero = nowhere.
type target struct {
	addr        string
	incarnation partition.Incarnation
}

// pair is what belongs to another broker: two lines to it, and whether it is suspected.
type pair struct {
	peers        *Peers
	node         partition.NodeID
	urgent, bulk *line
	mu           struct {
		sync.Mutex
		target  target
		watched bool // it shares a partition with this broker
		stopped bool
		// The urgent line tells how it stands.
		downSince time.Time // of the attempts to reach it; zero = it answers
		suspected bool
	}
}

func newPair(p *Peers, node partition.NodeID) *pair {
	pair := &pair{peers: p, node: node}
	pair.urgent, pair.bulk = newLine(pair, true), newLine(pair, false)
	pair.mu.target = targetOf(p.cfg.Topology.View(), node)
	return pair
}

func targetOf(view *topology.View, node partition.NodeID) target {
	live := view.Brokers[node].Live
	if live == nil {
		return target{}
	}
	return target{addr: live.Value.Capnp, incarnation: live.Value.Incarnation}
}

// send queues a message on the line that it belongs to.
func (p *pair) send(m Message) {
	now := p.peers.cfg.Clock.Now()
	p.mu.Lock()
	l := p.bulk
	if p.isUrgent(&m) {
		l = p.urgent
	}
	switch {
	case p.mu.stopped:
		l.queue.drop(m, stopped)
	case l.down:
		l.queue.drop(m, unreachable)
	default:
		l.queue.push(m, now)
	}
	p.unlock()
	signal(l.wake)
}

// isUrgent tells which line a message belongs to. An Append without batches is not to overtake one with batches: where there may be one
// under way it goes behind that.
func (p *pair) isUrgent(m *Message) bool {
	if m.Body != nil {
		return false
	}
	switch m.Quorum.(type) {
	case quorum.Append:
		return !p.bulk.queue.busy(m.Partition)
	case quorum.Fetched, quorum.Install:
		return false
	default:
		return true
	}
}

// unlock frees the mutex, and then what was given up.
func (p *pair) unlock() {
	urgent, bulk := p.urgent.queue.trash, p.bulk.queue.trash
	p.urgent.queue.trash, p.bulk.queue.trash = nil, nil
	p.mu.Unlock()
	for _, trash := range [...][]dropped{urgent, bulk} {
		for i := range trash {
			p.peers.dropped(&trash[i].message, trash[i].why)
		}
	}
}

// room gives what a bulk queue says of it.
func (p *pair) room(of func(*queue) int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stopped || p.bulk.down || p.mu.watched && p.mu.suspected {
		return 0
	}
	return of(p.bulk.queue)
}

// suspect tells whether the broker is suspected, and in which life.
func (p *pair) suspect() (partition.Incarnation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.target.incarnation, p.mu.watched && p.mu.suspected
}

// follow takes over where the broker is. Another life begins without suspicion. One that is not in the View any more may only have lost its
// lease: it is still reached where it was.
func (p *pair) follow(view *topology.View) {
	at := targetOf(view, p.node)
	if at.addr == "" {
		return
	}
	p.mu.Lock()
	moved, wasSuspect := p.mu.target != at, p.mu.watched && p.mu.suspected
	if moved {
		p.mu.target, p.mu.suspected, p.mu.downSince = at, false, time.Time{}
	}
	p.mu.Unlock()
	if !moved {
		return
	}
	for _, l := range [...]*line{p.urgent, p.bulk} {
		signal(l.cut)
	}
	if wasSuspect {
		p.peers.announce()
	}
}

// watch has the broker watched or not. It tells whether the suspects have changed by it.
func (p *pair) watch(on bool) bool {
	p.mu.Lock()
	changed := p.mu.watched != on
	p.mu.watched = on
	visible := changed && p.mu.suspected
	p.mu.Unlock()
	if changed {
		signal(p.urgent.wake)
	}
	return visible
}

// stop drops what is queued, for good.
func (p *pair) stop() {
	p.mu.Lock()
	p.mu.stopped = true
	p.urgent.queue.clear(stopped)
	p.bulk.queue.clear(stopped)
	p.unlock()
}

// tried says that an attempt to reach the broker begins, or that a connection to it has ended.
func (p *pair) tried() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.downSince.IsZero() {
		p.mu.downSince = p.peers.cfg.Clock.Now()
	}
}

// failed says that an attempt to reach the broker at a place did not succeed.
func (p *pair) failed(at target, err error) {
	now := p.peers.cfg.Clock.Now()
	p.mu.Lock()
	silent := !p.mu.downSince.IsZero() && now.Sub(p.mu.downSince) >= silenceMax
	suspect := p.mu.target == at && (silent || errors.Is(err, syscall.ECONNREFUSED))
	p.mu.Unlock()
	if suspect {
		p.judge(true, err)
	}
}

// answered says that the broker has answered.
func (p *pair) answered() { p.judge(false, nil) }

// judge begins or ends the suspicion.
func (p *pair) judge(suspected bool, err error) {
	p.mu.Lock()
	changed := p.mu.suspected != suspected
	p.mu.suspected = suspected
	if !suspected {
		p.mu.downSince = time.Time{}
	}
	watched := p.mu.watched
	p.mu.Unlock()
	if !changed || !watched {
		return
	}
	if suspected {
		p.peers.cfg.Log.Warn("broker does not answer", "node", uint64(p.node), "err", err)
	} else {
		p.peers.cfg.Log.Info("broker answers again", "node", uint64(p.node))
	}
	p.peers.announce()
}
