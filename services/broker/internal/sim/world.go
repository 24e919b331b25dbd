package sim

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// World is one run.
type World struct {
	seed      uint64
	rng       *rand.Rand
	knobs     knobs
	now       time.Duration
	agenda    agenda
	events    int
	trace     uint64 // hash of what happened
	out       io.Writer
	current   *task
	nodes     []*node
	parts     []*part
	etcd      etcd
	wire      wire
	clients   []*producer
	hold      func(kind string, n *node) bool // directed scenarios: what has to wait
	calm      bool                            // no more faults
	final     []*publish                      // the last of each partition
	value     uint64
	builder   batch.Builder
	published []*publish // by value-1
	topic     topology.Topic
	metrics   *replica.Metrics
	stats     Stats
}

// part is a partition, and what is known to be in it.
type part struct {
	index    int
	id       partition.ID
	register register
	canon    canon
	replicas map[partition.NodeID]partition.Member // that each node has, or would get; read by key only
	spare    uint64                                // numbers replicas
	stuck    time.Duration
}

// violation ends a run.
type violation string

func (w *World) fail(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

// note takes an event into the trace.
func (w *World) note(kind string, n *node) {
	h := w.trace
	for i := range len(kind) {
		h = (h ^ uint64(kind[i])) * 0x100000001b3
	}
	h = (h ^ uint64(n.id)) * 0x100000001b3
	w.trace = (h ^ uint64(w.now)) * 0x100000001b3
	w.events++
	if w.out != nil {
		w.logf("%s on node %d", kind, n.id)
	}
}

func (w *World) logf(format string, args ...any) {
	if w.out != nil {
		fmt.Fprintf(w.out, "%12.6f ", w.now.Seconds())
		fmt.Fprintf(w.out, format+"\n", args...)
	}
}

// logger is what a node logs to: the trace, where there is one.
func (w *World) logger(n *node) *slog.Logger {
	if w.out == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(logTo{w}, &slog.HandlerOptions{ReplaceAttr: withoutTime})).With("node", uint64(n.id))
}

type logTo struct{ w *World }

func (l logTo) Write(p []byte) (int, error) {
	l.w.logf("%s", p[:max(0, len(p)-1)])
	return len(p), nil
}

func (w *World) partOf(id partition.ID) *part { return w.parts[id.Index] }

func (w *World) node(id partition.NodeID) *node { return w.nodes[id-1] }

// step lets the next event happen.
func (w *World) step() {
	e := w.agenda.pop()
	w.now = e.at
	e.do()
}

// until lets events happen until a condition holds, or a time is over; it tells whether it holds.
func (w *World) until(limit time.Duration, holds func() bool) bool {
	for end := w.now + limit; w.now < end && len(w.agenda.heap) > 0; w.step() {
		if holds() {
			return true
		}
	}
	return holds()
}

// newReplica gives a replica that nobody had.
func (pt *part) newReplica(n partition.NodeID) partition.Member {
	pt.spare++
	return partition.Member{Broker: n, Replica: partition.UUIDOf(uint64(n)<<32|uint64(pt.index), pt.spare)}
}

// newWorld makes machines without processes, and partitions without an epoch.
func newWorld(seed uint64, k knobs, out io.Writer) *World {
	w := &World{seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), knobs: k, out: out, stats: Stats{}, metrics: replica.NewMetrics(prometheus.NewRegistry())}
	w.etcd = etcd{w: w, lives: map[partition.NodeID]partition.Incarnation{}}
	w.wire = wire{w: w}
	w.topic = topology.Topic{
		V: 1, ID: partition.UUIDOf(7, 7), Partitions: uint32(k.partitions), MapVersion: 1, Durability: topology.DurabilityQuorum,
		SegmentBytes: k.segmentBytes, SegmentAge: topology.Duration(k.segmentAge), TierDisabled: true,
	}
	for i := range k.nodes {
		n := &node{w: w, id: partition.NodeID(i + 1), rng: rand.New(rand.NewPCG(seed, uint64(i+1))), slow: 1, made: map[partition.UUID]bool{}, damaged: map[partition.UUID]bool{}}
		n.clock = nodeClock{w: w, offset: k.offsets[i], drift: k.drifts[i]}
		n.mem = newMem(&n.clock)
		w.nodes = append(w.nodes, n)
	}
	w.final = make([]*publish, k.partitions)
	w.wire.cut = make([][]bool, k.nodes)
	w.wire.last = make([][]time.Duration, k.nodes)
	for i := range k.nodes {
		w.wire.cut[i], w.wire.last[i] = make([]bool, k.nodes), make([]time.Duration, k.nodes)
	}
	for i := range k.partitions {
		w.parts = append(w.parts, &part{index: i, replicas: map[partition.NodeID]partition.Member{}, id: partition.ID{Topic: w.topic.ID, Index: partition.Index(i)}})
	}
	return w
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
