package model

import (
	"fmt"
	"math/rand/v2"
)

// brokers is how many there are.
const brokers = 5

// assignment is the register in etcd: who leads which epoch with which members (a bit a broker).
type assignment struct {
	ep      int32
	leader  int
	boot    int // incarnation of the leader's process
	members uint8
	active  bool
	baseEp  int32
	base    uint8
}

type kind uint8

const (
	prepare kind = iota
	prepareOK
	appendTo
	appendOK
	nack
	fetch
	fetchOK
)

type message struct {
	k        kind
	from, to int
	inc      int // identity of the destination's replica that this is meant for
	ep       int32
	prev     int
	prevEp   int32
	prevSum  uint64
	entries  []Entry
	hw       int
	match    int
	reject   int32
	ragged   bool
}

type phase uint8

const (
	following phase = iota
	preparing
	syncing
	leading
)

type broker struct {
	id    int
	up    bool
	wiped bool // its disk is gone for good, and its identity with it
	inc   int
	boot  int
	fresh int // steps for which it counts as just restarted
	d     Disk
	hw    int // lost with the process
	acks  []message
	known assignment // what it has learned of etcd
	phase phase
	ep    int32
	lmem  uint8
	lbase uint8
	prep  map[int]message
	match [brokers]int
	next  [brokers]int
	own   int // the leader's own durable end
	start int // offset behind its EpochStart
	wait  []int
	tired bool // it has waited long enough for all base members
}

// World is one run.
type World struct {
	r       *rand.Rand
	mut     string
	b       [brokers]*broker
	etcd    assignment
	net     []message
	val     int32
	exposed map[int]Entry // offset → the entry that was acked or served
	created map[int32]int // epoch → the broker that made entries in it
	cut     [brokers][brokers]bool
	cutEtcd [brokers]bool
	weak    int // the one broker whose media fail
	weights [16]int
	biased  bool
	deepRot bool // rot may hit what no mark proves yet; then nobody tires of waiting
	acks    int
	viol    string
	stats   map[string]int
}

func newWorld(seed uint64, mut string, bias bool) *World {
	w := &World{
		r: rand.New(rand.NewPCG(seed, 0x5151)), mut: mut, exposed: map[int]Entry{}, created: map[int32]int{}, stats: map[string]int{},
		etcd: assignment{leader: -1, members: 0b111, active: true, base: 0b111}, biased: bias && seed%2 == 1, deepRot: seed%3 == 0,
	}
	for i := range brokers {
		w.b[i] = &broker{id: i, up: true}
	}
	w.weak = w.r.IntN(brokers)
	for i := range w.weights { // each run has its own taste
		w.weights[i] = []int{0, 1, 1, 3, 8}[w.r.IntN(5)]
	}
	return w
}

func (w *World) fail(format string, args ...any) {
	if w.viol == "" {
		w.viol = fmt.Sprintf(format, args...)
	}
}

func (w *World) send(m message) {
	if len(w.net) > 60 {
		w.drop(w.r.IntN(len(w.net)))
	}
	m.inc = w.b[m.to].inc
	w.net = append(w.net, m)
}

func (w *World) drop(i int) {
	w.net[i] = w.net[len(w.net)-1]
	w.net = w.net[:len(w.net)-1]
}

func in(set uint8, i int) bool { return set>>i&1 == 1 }

func count(set uint8) int {
	n := 0
	for ; set > 0; set &= set - 1 {
		n++
	}
	return n
}

func majority(members, have uint8) bool { return count(members&have)*2 > count(members) }

// crashPoint gives a disk operation a chance to end in a power cut between its steps.
func (w *World) crashPoint(b *broker) func() bool {
	return func() bool {
		if w.weights[2] == 0 || w.r.IntN(60) != 0 {
			return false
		}
		w.stats["crash-inside"]++
		w.crash(b, true)
		return true
	}
}

// checkLogs is I4 on what the processes see.
func (w *World) checkLogs() {
	for i := range brokers {
		for j := i + 1; j < brokers; j++ {
			a, c := w.b[i].d.log, w.b[j].d.log
			o := min(len(a), len(c)) - 1
			for o >= 0 && a[o].Ep != c[o].Ep {
				o--
			}
			for k := 0; k <= o; k++ {
				if !a[k].same(c[k]) {
					w.fail("I4 logs of %d and %d differ at %d below a common epoch", i, j, k)
					return
				}
			}
		}
	}
}

// expose is a consumer that reads all below a broker's high watermark: I2.
func (w *World) expose(b *broker) {
	for o := 0; o < b.hw && o < len(b.d.log); o++ {
		e := b.d.log[o]
		if e.Bad {
			continue // such a read fails; damage is never served
		}
		if a, ok := w.exposed[o]; !ok {
			w.exposed[o] = e
		} else if a.Ep != e.Ep || a.Val != e.Val {
			w.fail("I2 two records exposed at offset %d: %v, then %v by %d", o, a, e, b.id)
		}
	}
}

// checkComplete is I3 at an activation.
func (w *World) checkComplete(b *broker) {
	for o, a := range w.exposed {
		if o >= len(b.d.log) || b.d.log[o].Ep != a.Ep || b.d.log[o].Val != a.Val {
			w.fail("I3 leader %d of epoch %d lacks committed %v at %d", b.id, b.ep, a, o)
			return
		}
	}
}

// checkDurable is I5 at an ack.
func (w *World) checkDurable(b *broker, o int) {
	var have uint8
	for i, q := range w.b {
		lost := q.wiped || q.d.ragged // a disk that failed since did hold it when it said so
		if q.d.holds(o, b.d.log[o]) || lost && b.match[i] > o {
			have |= 1 << i
		}
	}
	if !majority(b.lmem, have) {
		w.fail("I5 ack of offset %d in epoch %d without a durable majority", o, b.ep)
	}
}
