package sim

import (
	"context"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// canon is the one true log of a partition, as far as anybody has shown it: what was committed.
type canon struct {
	batches []canonical
	end     partition.Offset
	values  map[uint64]partition.Offset // where each value is; read by key only
	writers map[partition.Epoch]partition.Incarnation
	acked   partition.Offset // the highest offset that a client was told
}

// canonical is a batch that somebody showed.
type canonical struct {
	base, next partition.Offset
	epoch      partition.Epoch
	sum        uint32 // of its bytes, as they are on every replica
}

// check looks at what a process shows after an event.
func (w *World) check(p *process) {
	for _, h := range p.held {
		if h.r == nil || h.failed != nil {
			continue
		}
		s := h.r.State()
		if s.HighWatermark < h.hw {
			w.fail("I6: the high watermark of node %d falls from %d to %d", p.n.id, h.hw, s.HighWatermark)
		}
		if s.Active && !h.active {
			w.stats.add("leaders")
			w.logf("node %d leads epoch %d of partition %d", p.n.id, s.Epoch, h.part.index)
		}
		if s.Damaged > 0 && !p.n.rotten {
			// A torn write behind which a later batch tells of a commit: the replica cannot tell it from damage to what it had acknowledged.
			w.stats.add("torn catch-up taken for damage")
		}
		p.n.damaged[h.id] = s.Damaged > 0
		h.hw, h.active = s.HighWatermark, s.Active
		w.expose(p, h, s)
	}
}

// expose reads what a replica shows since the last look, and compares it with what others showed: I2, I4.
func (w *World) expose(p *process, h *held, s replica.State) {
	from := max(h.checked, s.LocalStart)
	for from < s.HighWatermark {
		got, err := h.r.Fetch(context.Background(), replica.Fetch{Offset: from})
		if err != nil || got.Chunk == nil {
			return // damage, or not written yet: what is not shown is not wrong
		}
		body := make([]byte, got.Chunk.Len())
		if _, err = got.Chunk.ReadAt(body, 0); errors.Join(err, got.Chunk.Close()) != nil {
			return
		}
		for msg, err := range batch.Each(body) {
			switch {
			case p.n.rotten && (err != nil || !sound(msg)):
				w.stats.add("rotten bytes served, which whoever reads them sees")
				return
			case err != nil:
				w.fail("node %d serves bytes that are no batch at %d: %v", p.n.id, from, err)
			}
			from = w.compare(p, h.part, msg, from)
		}
		h.checked = from
	}
}

func sound(msg []byte) bool {
	_, err := batch.ParseHeader(msg)
	return err == nil && batch.CheckBody(msg) == nil
}

// compare takes a batch that a replica showed, and gives the offset behind it.
func (w *World) compare(p *process, pt *part, msg []byte, at partition.Offset) partition.Offset {
	hd, err := batch.ParseHeader(msg)
	if err != nil || batch.CheckBody(msg) != nil {
		w.fail("node %d serves a damaged batch at %d", p.n.id, at)
	}
	c := &pt.canon
	b := canonical{partition.Offset(hd.BaseOffset), partition.Offset(hd.NextOffset()), partition.Epoch(hd.Epoch), crc32.ChecksumIEEE(msg)}
	if b.base < c.end {
		i, found := slices.BinarySearchFunc(c.batches, b.base, func(x canonical, at partition.Offset) int {
			return int(int64(x.base) - int64(at)) //nolint:gosec // small.
		})
		if !found || c.batches[i] != b {
			w.fail("I2: node %d shows another batch at %d of partition %d, epoch %d: %+v, not %+v", p.n.id, b.base, pt.index, b.epoch, b, around(c.batches, i))
		}
		return b.next
	}
	if b.base != c.end {
		w.fail("I2: node %d shows a batch at %d of partition %d, where %d is next", p.n.id, b.base, pt.index, c.end)
	}
	w.logf("partition %d: [%d, %d) of epoch %d, producer %d, sequence %d", pt.index, b.base, b.next, b.epoch, hd.ProducerID, hd.BaseSequence)
	c.batches = append(c.batches, b)
	c.end = b.next
	w.addValues(p, pt, &hd, msg)
	return b.next
}

func around(all []canonical, i int) canonical {
	if i < len(all) {
		return all[i]
	}
	return canonical{}
}

// addValues takes in the records of a batch that is shown for the first time: I1, I12.
func (w *World) addValues(p *process, pt *part, hd *batch.Header, msg []byte) {
	if hd.IsControl() {
		w.addControl(p, pt, msg)
		return
	}
	var r batch.Reader
	if err := r.Reset(msg); err != nil {
		w.fail("node %d serves a batch at %d that cannot be read: %v", p.n.id, hd.BaseOffset, err)
	}
	var rec batch.Record
	for i := range r.Len() {
		r.Record(i, &rec)
		value, at := valueOf(rec.Value), partition.Offset(r.Offset(i))
		if before, twice := pt.canon.values[value]; twice {
			w.fail("I12: value %d is at %d and at %d of partition %d", value, before, at, pt.index)
		}
		if pt.canon.values == nil {
			pt.canon.values = map[uint64]partition.Offset{}
		}
		pt.canon.values[value] = at
		w.shown(pt, value, at)
	}
}

// addControl looks at an EpochStart: I1.
func (w *World) addControl(p *process, pt *part, msg []byte) {
	control, err := batch.ReadControl(slices.Clone(msg))
	if err != nil {
		w.fail("node %d serves a control batch that cannot be read: %v", p.n.id, err)
	}
	w.stats.add("control " + control.Which().String())
	start, ok := epochStart(control)
	if !ok {
		return
	}
	c := &pt.canon
	if c.writers == nil {
		c.writers = map[partition.Epoch]partition.Incarnation{}
	}
	if by, twice := c.writers[start.epoch]; twice {
		w.fail("I1: epoch %d is started twice, by %d and %d", start.epoch, by, start.incarnation)
	}
	c.writers[start.epoch] = start.incarnation
}

// assigned looks at a change of a register.
func (w *World) assigned(pt *part) {
	a := &pt.register.value
	w.logf("partition %d: epoch %d %s, leader %d of %v, base %d %v", pt.index, a.Epoch, a.Status, a.Leader.Broker, brokersOf(a.Members), a.Base.Epoch, brokersOf(a.Base.Members))
}

func brokersOf(members []partition.Member) []partition.NodeID {
	var all []partition.NodeID
	for _, m := range members {
		all = append(all, m.Broker)
	}
	return all
}

// activated looks at an activation: whatever was committed before is in the new leader's log, I3. That it is the same, expose sees.
func (w *World) activated(pt *part, start partition.Offset) {
	w.stats.add("activations")
	if start < pt.canon.end {
		w.fail("I3: epoch %d of partition %d starts at %d, %d was committed before", pt.register.value.Epoch, pt.index, start, pt.canon.end)
	}
	if pt.register.value.Status != topology.Active {
		w.fail("an activation writes %s", pt.register.value.Status)
	}
}

type started struct {
	epoch       partition.Epoch
	incarnation partition.Incarnation
}

func epochStart(c batchcapnp.Control) (started, bool) {
	if c.Which() != batchcapnp.Control_Which_epochStart {
		return started{}, false
	}
	s, err := c.EpochStart()
	if err != nil {
		return started{}, false
	}
	return started{partition.Epoch(s.Epoch()), partition.Incarnation(s.Incarnation())}, true
}
