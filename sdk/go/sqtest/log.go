package sqtest

import (
	"slices"
	"sync"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// remembered is how many batches of a producer are recognised with their offset, as a broker does.
const remembered = 5

// partition is a log in memory.
type partition struct {
	tag uint64
	mu  struct {
		sync.Mutex
		batches    []stored
		start, end uint64
		chain      uint64
		appendTime int64
		producers  map[uint64]*producer
		changed    chan struct{} // closed at the next append or trim
	}
}

type stored struct {
	base, next uint64
	appendTime int64
	msg        []byte
}

type producer struct {
	next uint64
	last []sequence
}

type sequence struct {
	base   uint64
	count  uint32
	crc    uint32
	offset uint64
}

// bounds are the offsets around a log.
type bounds struct{ start, end uint64 }

// result is what an append came to.
type result struct {
	bounds

	base, last       uint64
	known, duplicate bool
	appendTime       int64
}

func newPartition(tag uint64) *partition {
	p := &partition{tag: tag}
	p.mu.producers = make(map[uint64]*producer)
	p.mu.changed = make(chan struct{})
	return p
}

// append stores a checked batch, unless it is a repeat. msg is kept.
func (p *partition) append(h batch.Header, msg []byte) (result, *frame.RemoteError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.ProducerID != 0 {
		if r, done, err := p.dedupe(h); done || err != nil {
			return r, err
		}
	}
	base := p.store(msg, h.LastOffsetDelta)
	if s := p.mu.producers[h.ProducerID]; s != nil {
		s.next = h.BaseSequence + uint64(h.RecordCount)
		s.last = append(s.last, sequence{h.BaseSequence, h.RecordCount, h.BodyCRC, base})
		s.last = s.last[max(0, len(s.last)-remembered):]
	}
	return result{bounds: p.around(), base: base, last: base + uint64(h.LastOffsetDelta), known: true, appendTime: p.mu.appendTime}, nil
}

// dedupe applies the rules of replication.md §2.1. It needs mu.
func (p *partition) dedupe(h batch.Header) (r result, done bool, err *frame.RemoteError) {
	s := p.mu.producers[h.ProducerID]
	if s == nil {
		if h.BaseSequence != 0 {
			return r, false, frame.Errorf(wirecapnp.ErrorKind_unknownProducer, "producer %d is not known", h.ProducerID)
		}
		s = &producer{}
		p.mu.producers[h.ProducerID] = s
	}
	for _, last := range s.last {
		if last.base != h.BaseSequence {
			continue
		}
		if last.crc != h.BodyCRC || last.count != h.RecordCount {
			return r, false, frame.Errorf(wirecapnp.ErrorKind_sequenceReused, "sequence %d had other records", h.BaseSequence)
		}
		return result{bounds: p.around(), base: last.offset, last: last.offset + uint64(last.count) - 1, known: true, duplicate: true, appendTime: p.mu.appendTime}, true, nil
	}
	switch {
	case h.BaseSequence < s.next:
		return result{bounds: p.around(), duplicate: true, appendTime: p.mu.appendTime}, true, nil
	case h.BaseSequence > s.next:
		remote := frame.Errorf(wirecapnp.ErrorKind_outOfOrder, "sequence %d, the next is %d", h.BaseSequence, s.next)
		remote.Offset = s.next
		return r, false, remote
	}
	return r, false, nil
}

// store stamps a batch and puts it at the end. It needs mu.
func (p *partition) store(msg []byte, lastOffsetDelta uint32) (base uint64) {
	base = p.mu.end
	p.mu.appendTime = max(p.mu.appendTime, batch.Micros(time.Now()))
	batch.Stamp(msg, batch.Stamps{
		BaseOffset: base, Epoch: 1, AppendTime: p.mu.appendTime, Chain: p.mu.chain, CommitHint: base, PartitionTag: p.tag,
	})
	p.mu.chain = batch.NextChain(msg)
	p.mu.end = base + uint64(lastOffsetDelta) + 1
	p.mu.batches = append(p.mu.batches, stored{base, p.mu.end, p.mu.appendTime, msg})
	p.wake()
	return base
}

// wake tells who waits. It needs mu.
func (p *partition) wake() {
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// around needs mu.
func (p *partition) around() bounds { return bounds{p.mu.start, p.mu.end} }

func (p *partition) bounds() bounds {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.around()
}

// read gives whole batches from offset on, at least one if there is any, and where to read on. changed is closed when there may be more.
func (p *partition) read(offset uint64, maxBytes int) (body [][]byte, next uint64, around bounds, changed <-chan struct{}, err *frame.RemoteError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	around, changed, next = p.around(), p.mu.changed, offset
	switch {
	case offset < p.mu.start:
		err = frame.Errorf(wirecapnp.ErrorKind_offsetTrimmed, "offset %d is below the log start %d", offset, p.mu.start)
		err.Offset = p.mu.start
		return nil, 0, around, nil, err
	case offset > p.mu.end:
		err = frame.Errorf(wirecapnp.ErrorKind_offsetOutOfRange, "offset %d is above the high watermark %d", offset, p.mu.end)
		err.Offset = p.mu.end
		return nil, 0, around, nil, err
	}
	size := 0
	first, _ := slices.BinarySearchFunc(p.mu.batches, offset, func(s stored, offset uint64) int {
		if s.next <= offset {
			return -1
		}
		return 1
	})
	for _, s := range p.mu.batches[first:] {
		if size > 0 && size+len(s.msg) > maxBytes {
			break
		}
		size += len(s.msg)
		body = append(body, s.msg)
		next = s.next
	}
	return body, next, around, changed, nil
}

// at gives the first offset whose append time is not below a time; the end if there is none.
func (p *partition) at(micros int64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.mu.batches {
		if s.appendTime >= micros && s.next > p.mu.start {
			return max(s.base, p.mu.start)
		}
	}
	return p.mu.end
}

func (p *partition) trim(before uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.start = max(p.mu.start, min(before, p.mu.end))
	p.mu.batches = slices.DeleteFunc(p.mu.batches, func(s stored) bool { return s.next <= p.mu.start })
	p.wake()
}

func (p *partition) appendControl() {
	msg, err := batch.BuildControl(nil, func(c batchcapnp.Control) error {
		_, err := c.NewEpochStart()
		return err
	})
	if err != nil {
		panic("sqtest: " + err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store(msg, 0)
}

func (p *partition) corrupt(offset uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.mu.batches {
		if s.base <= offset && offset < s.next {
			bad := slices.Clone(s.msg) // answers on their way keep the good one
			bad[len(bad)-9] ^= 1
			p.mu.batches[i].msg = bad
		}
	}
}

func (p *partition) values() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	var reader batch.Reader
	var rec batch.Record
	for _, s := range p.mu.batches {
		if reader.Reset(s.msg) != nil {
			continue // a control batch, or a test has broken it
		}
		for i := range reader.Len() {
			reader.Record(i, &rec)
			out = append(out, string(rec.Value))
		}
	}
	return out
}
