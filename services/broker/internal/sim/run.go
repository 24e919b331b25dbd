package sim

import (
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

// Stats counts what happened.
type Stats map[string]int

func (s Stats) add(what string) { s[what]++ }

// Add takes another run's counts in.
func (s Stats) Add(o Stats) {
	for what, n := range o {
		s[what] += n
	}
}

// String gives the counts by name.
func (s Stats) String() string {
	out := ""
	for _, what := range slices.Sorted(maps.Keys(s)) {
		out += fmt.Sprintf("%10d  %s\n", s[what], what)
	}
	return out
}

// Result is what a run showed.
type Result struct {
	Violation string // "" = none
	Events    int
	Trace     uint64 // hash of the run: the same seed gives the same
	Stats     Stats
}

// Run simulates one seed. out, if not nil, gets what happens, line by line.
func Run(seed uint64, out io.Writer) Result { return run(seed, draw(seed), out) }

func run(seed uint64, k knobs, out io.Writer) (result Result) {
	w := newWorld(seed, k, out)
	defer func() {
		for _, n := range w.nodes {
			n.end(false) // tasks end with their process
		}
	}()
	result.Violation = w.protect(func() {
		w.start()
		for w.events < k.events {
			w.step()
		}
		w.heal()
	})
	result.Events, result.Trace, result.Stats = w.events, w.trace, w.stats
	return result
}

// protect runs something and gives the violation that ends it.
func (w *World) protect(do func()) (violated string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case violation:
			violated = string(r)
			w.logf("VIOLATION %s", violated)
		default:
			violated = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	do()
	return ""
}

func (w *World) start() {
	w.nodes[w.rng.IntN(len(w.nodes))].weak = true
	for _, n := range w.nodes {
		n.boot()
	}
	w.nominator()
	for i := range w.knobs.clients {
		w.clients = append(w.clients, w.newProducer(i))
	}
	w.agenda.push(w.now+w.knobs.faults.every, w.trouble)
	w.agenda.push(w.now, w.relist)
}

// relist tells every process everything now and then: watches lose.
func (w *World) relist() {
	for _, n := range w.nodes {
		if n.p != nil {
			for _, pt := range w.parts {
				w.etcd.tell(n.p, pt, w.etcd.latency())
			}
		}
	}
	w.agenda.push(w.now+time.Second, w.relist)
}

// heal ends the faults, keeps a random majority of machines, and wants everything to come to its end within a minute: I14.
func (w *World) heal() {
	w.calm, w.etcd.down = true, false
	w.logf("--- healed")
	w.knobs.loss, w.knobs.repeat, w.knobs.stray, w.knobs.etcdLoss = 0, 0, 0, 0
	for i := range w.wire.cut {
		clear(w.wire.cut[i])
	}
	keep, possible := w.survivors()
	for _, n := range w.nodes {
		n.etcdCut, n.slow, n.pausedTo = false, 1, w.now
		n.stopped = !keep[n.id-1]
		if n.p != nil && (n.stopped || n.p.fuse > 0 || n.p.dying != nil) {
			n.end(false)
		}
		n.end(false) // with its disk's faults
		n.boot()
	}
	if !possible {
		w.stats.add("runs that end unavailable")
		w.until(5*time.Second, func() bool { return false })
		return
	}
	if !w.until(time.Minute, func() bool { return w.unsettled() == "" }) && !w.rots() {
		w.fail("I14: after a minute without faults: %s", w.unsettled())
	}
	w.converged()
	w.checkHistory()
}

// survivors picks machines with a majority of what each partition needs; possible is false if too many disks are gone.
func (w *World) survivors() (keep []bool, possible bool) {
	keep, possible = make([]bool, len(w.nodes)), true
	for i := range keep {
		keep[i] = w.rng.IntN(2) == 0
	}
	for _, pt := range w.parts {
		a := &pt.register.value
		for _, set := range [][]partition.Member{a.Members, a.Base.Members} {
			sound := 0
			for _, i := range w.rng.Perm(len(set)) {
				if n := w.node(set[i].Broker); w.sound(pt, set[i]) {
					if sound++; sound <= len(set)/2+1 {
						keep[n.id-1] = true
					}
				}
			}
			possible = possible && sound > len(set)/2
		}
	}
	return keep, possible
}

// sound tells whether a member's data is there, or may still be made.
func (w *World) sound(pt *part, m partition.Member) bool {
	n := w.node(m.Broker)
	return n.ruined == nil && !n.rotten && !n.damaged[m.Replica] && (n.made[m.Replica] || pt.register.value.MayBeEmpty(m) && pt.replicas[n.id] == m)
}

// rots tells what excuses a run: a leader's disk lost bytes that only the scrubber would find, or a damaged member of a base counts for nothing.
func (w *World) rots() bool {
	w.stats.add("runs that do not come to their end, excused if by damage")
	return slices.ContainsFunc(w.parts, func(pt *part) bool {
		a := &pt.register.value
		return w.node(a.Leader.Broker).rotten || slices.ContainsFunc(a.Base.Members, func(m partition.Member) bool { return w.node(m.Broker).damaged[m.Replica] })
	})
}

func (w *World) unsettled() string {
	for _, c := range w.clients {
		if len(c.flight) > 0 {
			return fmt.Sprintf("producer %d waits for sequence %d of partition %d, attempt %d", c.pid, c.flight[0].seq, c.part.index, c.flight[0].attempt)
		}
	}
	for _, pt := range w.parts {
		if !w.healthy(pt) {
			return fmt.Sprintf("partition %d has no leader: %+v", pt.index, pt.register.value)
		}
		if w.final[pt.index] == nil {
			c := &producer{w: w, part: pt, rng: w.rng, window: 1, target: pt.register.value.Leader.Broker, pid: uint64(1000 + pt.index)}
			w.clients = append(w.clients, c)
			w.final[pt.index] = c.begin()
			return "the last publish is not answered"
		}
		for _, m := range pt.register.value.Members {
			if behind := w.behind(pt, m); behind != "" {
				return behind
			}
		}
	}
	return ""
}

func (w *World) behind(pt *part, m partition.Member) string {
	n := w.node(m.Broker)
	if n.stopped || !w.sound(pt, m) {
		return ""
	}
	if n.p == nil {
		return fmt.Sprintf("node %d is down", n.id)
	}
	h := n.p.find(m.Replica)
	if h == nil || h.r == nil {
		return fmt.Sprintf("node %d has not opened its replica of partition %d", n.id, pt.index)
	}
	if s := h.r.State(); s.End != pt.canon.end { // one that restarted may learn the high watermark with the next batch only
		return fmt.Sprintf("node %d is at %d, high watermark %d, of partition %d, which ends at %d", n.id, s.End, s.HighWatermark, pt.index, pt.canon.end)
	}
	return ""
}
