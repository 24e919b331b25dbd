package peer

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// Topology is the View as it changes; *topology.Follower is one.
type Topology interface {
	View() *topology.View
	Changed() <-chan struct{}
}

// Config is what Peers are made of. All of it is needed.
type Config struct {
	Self     partition.NodeID
	Cluster  partition.UUID
	Software string // "sq-broker/0.1.0"
	Topology Topology
	Network  transport.Network
	Clock    clock.Clock
	Rand     io.Reader // of the jitter between attempts
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Peers sends to the other brokers. See doc.go.
type Peers struct {
	cfg     Config
	metrics *metrics
	pool    *frame.Pool
	random  random
	wake    chan struct{} // capacity 1: there is a pair to start
	mu      struct {
		sync.RWMutex
		pairs   map[partition.NodeID]*pair
		fresh   []*pair // not started
		stopped bool
		changed chan struct{} // closed when the suspects change
	}
}

// New makes Peers. Nothing is sent before Run.
func New(cfg Config) (*Peers, error) {
	p := &Peers{cfg: cfg, random: random{from: cfg.Rand}, pool: frame.NewPool(), wake: make(chan struct{}, 1)}
	p.mu.pairs = map[partition.NodeID]*pair{}
	p.mu.changed = make(chan struct{})
	metrics, err := newMetrics(cfg.Metrics, p)
	if err != nil {
		return nil, err
	}
	p.metrics = metrics
	return p, nil
}

// Send queues a message for the broker m.To.Broker. It does not wait. The message may be lost: whoever needs an answer sends again.
func (p *Peers) Send(m Message) {
	if m.To.Broker == p.cfg.Self || !sendable(&m) {
		p.dropped(&m, unsendable)
		return
	}
	if pair := p.pair(m.To.Broker); pair != nil {
		pair.send(m)
		return
	}
	p.dropped(&m, stopped)
}

// sendable tells whether the receiver's limits allow a message.
func sendable(m *Message) bool {
	if ok, is := m.Quorum.(quorum.PrepareOK); is && max(len(ok.Epochs), len(ok.Faults)) > listMax {
		return false
	}
	return bodyLen(m) <= frame.DefaultMaxBodyBytes
}

// Room tells how many bytes of bodies may be queued now to a broker, by all partitions together; 0 while it cannot be reached.
func (p *Peers) Room(to partition.NodeID) int {
	if pair := p.pair(to); pair != nil {
		return pair.room((*queue).roomOfAll)
	}
	return 0
}

// Of is Peers as one partition sees them: its Room is what is left of its share, so that no other one can take all.
func (p *Peers) Of(id partition.ID) Sender { return Sender{peers: p, id: id} }

// Sender sends for one partition.
type Sender struct {
	peers *Peers
	id    partition.ID
}

// Send is Peers.Send.
func (s Sender) Send(m Message) { s.peers.Send(m) }

// Room tells how many bytes of bodies the partition may queue now to a broker; 0 while it cannot be reached.
func (s Sender) Room(to partition.NodeID) int {
	if pair := s.peers.pair(to); pair != nil {
		return pair.room(func(q *queue) int { return q.room(s.id) })
	}
	return 0
}

// Suspects are the brokers that share a partition with this one and do not answer, in the order of their numbers.
func (p *Peers) Suspects() []Suspect {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var all []Suspect
	for _, pair := range p.mu.pairs {
		if incarnation, ok := pair.suspect(); ok {
			all = append(all, Suspect{Broker: pair.node, Incarnation: incarnation})
		}
	}
	slices.SortFunc(all, func(a, b Suspect) int { return cmp.Compare(a.Broker, b.Broker) })
	return all
}

// Changed gives a channel that is closed when the suspects change. Take it before Suspects, or a change between is missed.
func (p *Peers) Changed() <-chan struct{} {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.changed
}

// announce tells that the suspects have changed. It must not be called with a pair's mutex held.
func (p *Peers) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// pair finds or makes what belongs to another broker; nil when stopped.
func (p *Peers) pair(node partition.NodeID) *pair {
	p.mu.RLock()
	found, stopped := p.mu.pairs[node], p.mu.stopped
	p.mu.RUnlock()
	if found != nil || stopped {
		return found
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if found = p.mu.pairs[node]; found != nil || p.mu.stopped {
		return found
	}
	found = newPair(p, node)
	p.mu.pairs[node] = found
	p.mu.fresh = append(p.mu.fresh, found)
	signal(p.wake)
	return found
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// dropped counts a message that is not sent, and closes its body.
func (p *Peers) dropped(m *Message, why reason) {
	p.metrics.dropped[why].Inc()
	if m.Body != nil {
		_ = m.Body.Close() // what it held is released; nothing to report
		m.Body = nil
	}
}

// Run sends until ctx ends, and then drops what is queued and ends the connections.
func (p *Peers) Run(ctx context.Context) error {
	var lines sync.WaitGroup
	defer p.stop(&lines)
	timer := p.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	var watched *topology.View // the last that was searched for neighbours
	var due time.Time          // when the next may be
	for {
		changed := p.cfg.Topology.Changed()
		view := p.cfg.Topology.View()
		for _, pair := range p.all() {
			pair.follow(view)
		}
		if now := p.cfg.Clock.Now(); view != watched && due.After(now) {
			timer.Stop()
			timer.Reset(due.Sub(now))
		} else if view != watched {
			p.watch(view)
			watched, due = view, now.Add(neighboursEvery)
		}
		for _, pair := range p.takeFresh() {
			lines.Go(func() { pair.urgent.run(ctx) })
			lines.Go(func() { pair.bulk.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C():
		case <-changed:
		}
	}
}

func (p *Peers) all() []*pair {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := make([]*pair, 0, len(p.mu.pairs))
	for _, pair := range p.mu.pairs {
		all = append(all, pair)
	}
	return all
}

func (p *Peers) takeFresh() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.mu.fresh
	p.mu.fresh = nil
	return fresh
}

// stop ends the lines and drops what is queued.
func (p *Peers) stop(lines *sync.WaitGroup) {
	p.mu.Lock()
	p.mu.stopped = true
	p.mu.Unlock()
	lines.Wait()
	for _, pair := range p.all() {
		pair.stop()
	}
}

// watch has the brokers watched that share a partition with this one, and no others.
func (p *Peers) watch(view *topology.View) {
	near := neighbours(view, p.cfg.Self)
	for node := range near {
		p.pair(node)
	}
	changed := false
	for _, pair := range p.all() {
		_, is := near[pair.node]
		changed = pair.watch(is) || changed
	}
	if changed {
		p.announce()
	}
}

// neighbours are the brokers that hold a replica of a partition that self holds one of.
func neighbours(view *topology.View, self partition.NodeID) map[partition.NodeID]struct{} {
	near := map[partition.NodeID]struct{}{}
	isSelf := func(m partition.Member) bool { return m.Broker == self }
	for _, all := range view.Partitions {
		for i := range all {
			a := &all[i].Value
			sets := [...][]partition.Member{a.Members, a.Learners, a.Base.Members}
			if !slices.ContainsFunc(sets[0], isSelf) && !slices.ContainsFunc(sets[1], isSelf) && !slices.ContainsFunc(sets[2], isSelf) {
				continue
			}
			for _, members := range sets {
				for _, m := range members {
					near[m.Broker] = struct{}{}
				}
			}
		}
	}
	delete(near, self)
	return near
}

// newBackoff spaces the attempts to reach a broker.
func (p *Peers) newBackoff() *backoff.Backoff {
	return backoff.New(p.cfg.Clock, &p.random, backoff.Policy{Initial: redialFirst, Max: redialLast, Jitter: 0.5})
}

// random is randomness for many goroutines.
type random struct {
	from io.Reader
	mu   sync.Mutex
}

// Read implements io.Reader.
func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.Read(p) //nolint:wrapcheck // an io.Reader.
}
