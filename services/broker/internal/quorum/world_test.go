package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
)

// world is a few replicas of one partition, a register and a network, all moved by hand.
type world struct {
	nodes    map[int]*node
	register topology.Assignment
	revision int64
	net      []envelope
	clock    int64 // microseconds
	out      strings.Builder
}

type envelope struct {
	from, to int
	message  Message
}

// node is a replica with its disk. log is the page cache; durable of its entries are on disk.
type node struct {
	id          int
	incarnation partition.Incarnation
	state       *State
	up          bool
	log         []Entry
	durable     int
	promised    partition.Epoch // on disk
	io          []Effect        // not carried out yet
	cas         *Activate
	reread      bool
	elapsed     time.Duration
}

func member(id int) partition.Member {
	return partition.Member{Broker: partition.NodeID(id), Replica: partition.UUIDOf(0, uint64(id))}
}

func members(ids ...int) []partition.Member {
	var out []partition.Member
	for _, id := range ids {
		out = append(out, member(id))
	}
	return out
}

func idOf(m partition.Member) int { return int(m.Broker) }

func newWorld(n int, cfg func(*Config)) *world {
	w := &world{nodes: map[int]*node{}, clock: 1_000_000}
	for id := 1; id <= n; id++ {
		w.nodes[id] = &node{id: id}
		w.start(w.nodes[id], cfg)
	}
	return w
}

// start makes a node's state from its disk.
func (w *world) start(n *node, adjust func(*Config)) {
	n.incarnation++
	cfg := Config{Self: member(n.id), Incarnation: n.incarnation, Tag: 7, SyncEveryGroup: true, Cut: CutPolicy{Bytes: 1 << 20, Age: time.Hour}}
	if adjust != nil {
		adjust(&cfg)
	}
	n.state = New(cfg, Recovered{Promised: n.promised})
	for i := range n.log {
		if err := n.state.Replay(&n.log[i].Header, batch.NextChain(n.log[i].Msg)); err != nil {
			w.printf("%d: replay: %v\n", n.id, err)
		}
	}
	n.state.Opened()
	n.durable = len(n.log) // recovery has rewritten what it kept
	n.io, n.cas, n.reread, n.up, n.elapsed = nil, nil, false, true, 0
}

// crash ends a node's process; with power what was not synced is lost too.
func (w *world) crash(n *node, power bool) {
	n.up = false
	if power {
		n.log = n.log[:n.durable]
	}
	w.net = slices.DeleteFunc(w.net, func(e envelope) bool { return e.to == n.id })
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format, args...) }

// step gives a node an event and takes its effects.
func (w *world) step(n *node, ev Event) {
	if !n.up {
		w.printf("%d is down\n", n.id)
		return
	}
	for _, e := range n.state.Step(ev) {
		w.printf("%d: %s\n", n.id, show(e))
		w.take(n, e)
	}
}

func (w *world) take(n *node, e Effect) {
	switch e := e.(type) {
	case PersistPromise:
		n.io = append(n.io, e)
	case AppendLog:
		n.log = append(n.log, clone(e.Entries)...)
		n.io = append(n.io, e)
	case SyncLog:
		n.io = append(n.io, e)
	case TruncateLog:
		i := slices.IndexFunc(n.log, func(x Entry) bool { return partition.Offset(x.BaseOffset) >= e.To })
		if i >= 0 {
			n.log = n.log[:i]
		}
		n.durable = min(n.durable, len(n.log))
	case Activate:
		n.cas = &e
	case Reread:
		n.reread = true
	case Send:
		m := e.Message
		if a, ok := m.(Append); ok {
			a.Entries = n.entries(a.Prev, a.Until)
			m = a
		}
		w.net = append(w.net, envelope{n.id, idOf(e.To), m})
	case ServeFetch:
		w.net = append(w.net, envelope{n.id, idOf(e.To), Fetched{Epoch: e.Epoch, Entries: n.entries(e.From, e.Until)}})
	}
}

func clone(entries []Entry) []Entry {
	var out []Entry
	for _, e := range entries {
		e.Msg = slices.Clone(e.Msg)
		out = append(out, e)
	}
	return out
}

func (n *node) entries(from, until partition.Offset) []Entry {
	var out []Entry
	for _, e := range n.log {
		if at := partition.Offset(e.BaseOffset); at >= from && at < until {
			out = append(out, e)
		}
	}
	return clone(out)
}

// end is where the log ends up to n entries.
func (n *node) end(entries int) partition.Offset {
	if entries == 0 {
		return 0
	}
	return partition.Offset(n.log[entries-1].NextOffset())
}

// disk carries out the oldest thing that waits for the disk and is of the kind asked for; false if there is none.
func (w *world) disk(n *node, journal bool) bool {
	i := slices.IndexFunc(n.io, func(e Effect) bool { _, promise := e.(PersistPromise); return promise == journal })
	if i < 0 {
		return false
	}
	e := n.io[i]
	n.io = slices.Delete(n.io, i, i+1)
	switch e := e.(type) {
	case PersistPromise:
		n.promised = max(n.promised, e.Epoch)
		w.step(n, Promised(e))
	case AppendLog:
		w.step(n, Written{Generation: e.Generation, End: e.End})
	case SyncLog:
		if e.Generation == n.state.Report().Generation {
			for n.durable < len(n.log) && n.end(n.durable+1) <= e.End {
				n.durable++
			}
		}
		w.step(n, Persisted(e))
	}
	return true
}

// deliver takes the oldest message of a pair off the network.
func (w *world) deliver(from, to int, drop, keep bool) bool {
	i := slices.IndexFunc(w.net, func(e envelope) bool { return e.from == from && e.to == to })
	if i < 0 {
		return false
	}
	e := w.net[i]
	if !keep {
		w.net = slices.Delete(w.net, i, i+1)
	}
	if !drop {
		w.step(w.nodes[to], Received{From: member(from), Message: e.message})
	}
	return true
}

// swap does a node's CAS on the register.
func (w *world) swap(n *node) bool {
	if n.cas == nil || n.cas.Revision != w.revision {
		return false
	}
	w.set(w.register.Activate(n.cas.Start))
	return true
}

func (w *world) set(a topology.Assignment) {
	w.register = a
	w.revision++
}

func (w *world) learn(n *node, reread bool) {
	w.step(n, Assigned{Assignment: w.register, Revision: w.revision, Reread: reread, Time: w.clock})
}

// nominate writes the next epoch.
func (w *world) nominate(leader int, set []partition.Member) {
	l := topology.Leader{Broker: partition.NodeID(leader), Replica: member(leader).Replica, Incarnation: w.nodes[leader].incarnation}
	if w.register.Epoch == 0 {
		w.set(topology.First(l, set))
		return
	}
	w.set(w.register.Nominate(l, set))
}

// run does everything that waits, until nothing does: disks, CAS, re-reads, messages between nodes that are up.
func (w *world) run() {
	for range 10_000 {
		if !w.runOne() {
			return
		}
	}
	w.printf("does not come to rest\n")
}

func (w *world) runOne() bool {
	for id := 1; id <= len(w.nodes); id++ {
		n := w.nodes[id]
		if !n.up {
			continue
		}
		switch {
		case len(n.io) > 0:
			_, journal := n.io[0].(PersistPromise)
			return w.disk(n, journal)
		case n.cas != nil:
			won := w.swap(n)
			epoch := n.cas.Epoch
			n.cas = nil
			w.step(n, Activation{Epoch: epoch, Won: won})
			return true
		case n.reread:
			n.reread = false
			w.learn(n, true)
			return true
		}
	}
	for _, e := range w.net {
		if w.nodes[e.to].up {
			return w.deliver(e.from, e.to, false, false)
		}
	}
	return false
}

// propose appends batches of one record each, with the labels as values.
func (w *world) propose(n *node, labels []string) {
	w.clock += 1000
	var entries []Entry
	for _, label := range labels {
		entries = append(entries, dataEntry(label))
	}
	w.step(n, Propose{Entries: entries, Time: w.clock})
}

func dataEntry(label string) Entry {
	var b batch.Builder
	b.Reset()
	if err := b.Add(batch.Record{Value: []byte(label)}); err != nil {
		panic(err)
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	if err != nil {
		panic(err)
	}
	h, err := batch.ParseHeader(msg)
	if err != nil {
		panic(err)
	}
	return Entry{Header: h, Msg: msg}
}

// label names a batch: its value, or its kind of control.
func label(e Entry) string {
	var name string
	if e.IsControl() {
		control, err := batch.ReadControl(e.Msg)
		if err != nil {
			return err.Error()
		}
		name = map[string]string{"epochStart": "START", "cut": "CUT"}[control.Which().String()]
	} else {
		var r batch.Reader
		if err := r.Reset(e.Msg); err != nil {
			return err.Error()
		}
		var record batch.Record
		r.Record(0, &record)
		name = string(record.Value)
	}
	if e.SegmentBase == e.BaseOffset {
		name = "[" + name
	}
	return fmt.Sprintf("%d:%s.%d", e.BaseOffset, name, e.Epoch)
}

func labels(entries []Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, label(e))
	}
	return strings.Join(out, " ")
}

// show prints an effect.
func show(e Effect) string {
	switch e := e.(type) {
	case PersistPromise:
		return fmt.Sprintf("promise %d", e.Epoch)
	case AppendLog:
		return fmt.Sprintf("append g%d %s", e.Generation, labels(e.Entries))
	case SyncLog:
		return fmt.Sprintf("sync g%d to %d", e.Generation, e.End)
	case TruncateLog:
		return fmt.Sprintf("truncate to %d, now g%d", e.To, e.Generation)
	case Activate:
		return fmt.Sprintf("activate %d at revision %d, start %d", e.Epoch, e.Revision, e.Start)
	case Reread:
		return fmt.Sprintf("reread for %d", e.Epoch)
	case Send:
		return fmt.Sprintf("-> %d %s", idOf(e.To), showMessage(e.Message))
	case ServeFetch:
		return fmt.Sprintf("-> %d fetched of %d: [%d, %d)", idOf(e.To), e.Epoch, e.From, e.Until)
	case Commit:
		return fmt.Sprintf("commit %d, persisted %d", e.HighWatermark, e.Persisted)
	case Cut:
		return fmt.Sprintf("cut [%d, %d)", e.Base, e.End)
	case Lead:
		return fmt.Sprintf("LEADS %d from %d", e.Epoch, e.Start)
	case StepDown:
		return fmt.Sprintf("STEPS DOWN from %d: %s", e.Epoch, e.Reason)
	case Quarantine:
		return "QUARANTINED: " + e.Reason
	default:
		return fmt.Sprintf("%T", e)
	}
}

func showMessage(m Message) string {
	switch m := m.(type) {
	case Prepare:
		return fmt.Sprintf("prepare %d", m.Epoch)
	case PrepareOK:
		suspect := ""
		if m.Suspect {
			suspect = " suspect"
		}
		return fmt.Sprintf("prepareOK %d: last %d, [%d, %d), hw %d%s", m.Epoch, m.LastEpoch, m.Start, m.End, m.HighWatermark, suspect)
	case Append:
		return fmt.Sprintf("append %d: [%d, %d) after %d, hw %d", m.Epoch, m.Prev, m.Until, m.PrevEpoch, m.HighWatermark)
	case AppendOK:
		return fmt.Sprintf("appendOK %d: match %d, written %d", m.Epoch, m.Match, m.Written)
	case Nack:
		if m.Promised > 0 {
			return fmt.Sprintf("nack %d: promised %d", m.Epoch, m.Promised)
		}
		return fmt.Sprintf("nack %d: has %d up to %d", m.Epoch, m.Hint.Epoch, m.Hint.End)
	case Fetch:
		return fmt.Sprintf("fetch %d: [%d, %d)", m.Epoch, m.From, m.Until)
	default:
		return fmt.Sprintf("%T", m)
	}
}
