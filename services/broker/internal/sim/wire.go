package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// wire is the network between the machines: it is slow, loses, repeats and reorders, and is cut one way or the other.
type wire struct {
	w    *World
	cut  [][]bool          // from, to
	last [][]time.Duration // when the last message arrives
	// hold, if set, takes a message away from the wire (directed scenarios).
	hold func(m peer.Message, deliver func()) bool
}

// port is what a process has of it: replica.Deps.Peers.
type port struct{ p *process }

// Room is never used up here: the messages of a simulated world are small.
func (port) Room(partition.NodeID) int { return 8 << 20 }

// Send reads the message's body a little later, as a connection does that is busy, and lets it go.
func (o port) Send(m peer.Message) {
	p := o.p
	w := p.n.w
	if p.dead {
		return
	}
	w.stats.add("messages")
	p.after("send", p.n.brief(), func() {
		body, ok := readBody(m)
		if !ok {
			w.stats.add("message whose bytes were gone")
			return
		}
		w.wire.transmit(p.n, w.node(m.To.Broker), m, body)
	})
}

func readBody(m peer.Message) ([]byte, bool) {
	if m.Body == nil {
		return nil, true
	}
	var b bytes.Buffer
	_, err := m.Body.WriteTo(&b)
	return b.Bytes(), err == nil && m.Body.Close() == nil && b.Len() == m.Body.Len()
}

// transmit has a message arrive, perhaps, perhaps more than once.
func (x *wire) transmit(from, to *node, m peer.Message, body []byte) {
	m.Body = nil
	deliver := func() { x.arrive(from, to, m, body) }
	if x.hold != nil && x.hold(m, deliver) {
		return
	}
	w := x.w
	k := &w.knobs
	if w.rng.IntN(1000) < k.loss {
		w.stats.add("messages lost")
		return
	}
	copies := 1
	if w.rng.IntN(1000) < k.repeat {
		copies = 2
		w.stats.add("messages repeated")
	}
	for range copies {
		at := w.now + k.latency/2 + time.Duration(w.rng.Int64N(int64(k.latency)))
		if w.rng.IntN(1000) < k.stray {
			at += time.Duration(w.rng.Int64N(int64(3 * time.Second))) // a packet that took the long way
			w.stats.add("messages that took the long way")
		} else if i, j := from.id-1, to.id-1; !k.reorder {
			at = max(at, x.last[i][j]+1)
			x.last[i][j] = at
		}
		w.agenda.push(at, deliver)
	}
}

// arrive gives a message to the replica that it is for, if it is there.
func (x *wire) arrive(from, to *node, m peer.Message, body []byte) {
	w := x.w
	if x.cut[from.id-1][to.id-1] {
		w.stats.add("messages cut off")
		return
	}
	p := to.p
	if p == nil {
		return
	}
	p.after("deliver", p.n.brief(), func() {
		h := p.find(m.To.Replica)
		if h == nil || h.r == nil || h.part.id != m.Partition {
			return
		}
		d, ok := delivery(m, body)
		if !ok { // as the other end of a connection finds: cut and grown again, or rotten, before it was read
			w.stats.add("message with damaged batches")
			return
		}
		if w.out != nil {
			w.logf("%d -> %d: %s", from.id, to.id, brief(d.Quorum))
		}
		h.r.Deliver(d)
	})
}

// delivery is the message as it comes out of a connection: its entries alias memory that is nobody's after Release.
func delivery(m peer.Message, body []byte) (peer.Delivery, bool) {
	body = slices.Clone(body)
	entries, ok := entriesOf(body)
	if !ok {
		return peer.Delivery{}, false
	}
	switch q := m.Quorum.(type) {
	case quorum.Append:
		q.Entries = entries
		m.Quorum = q
	case quorum.Fetched:
		q.Entries = entries
		m.Quorum = q
	}
	return peer.Delivery{Message: m, Release: func() {
		for i := range body {
			body[i] = 0xdb // whoever still reads it finds out
		}
	}}, true
}

func entriesOf(body []byte) ([]quorum.Entry, bool) {
	var entries []quorum.Entry
	for msg, err := range batch.Each(body) {
		if err != nil || batch.CheckBody(msg) != nil {
			return nil, false
		}
		h, err := batch.ParseHeader(msg)
		if err != nil {
			return nil, false
		}
		entries = append(entries, quorum.Entry{Header: h, Msg: msg})
	}
	return entries, true
}

// brief says what a message is, for the trace.
func brief(m quorum.Message) string {
	switch m := m.(type) {
	case quorum.Append:
		return fmt.Sprintf("Append epoch %d [%d, %d) behind epoch %d, high watermark %d, %d entries", m.Epoch, m.Prev, m.Until, m.PrevEpoch, m.HighWatermark, len(m.Entries))
	case quorum.Fetched:
		return fmt.Sprintf("Fetched epoch %d, %d entries", m.Epoch, len(m.Entries))
	default:
		return fmt.Sprintf("%T %+v", m, m)
	}
}
