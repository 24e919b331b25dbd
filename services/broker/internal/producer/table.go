package producer

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Outcome says what to do with a batch.
type Outcome uint8

// Outcomes.
const (
	Fresh        Outcome = iota // append it
	Duplicate                   // it is in the log at Base
	OldDuplicate                // it was stored, where is forgotten
	Reused                      // its sequence was used for another batch
	Gap                         // batches before it are missing: Next is expected
	Unknown                     // no such session, and it does not begin one
	KeyReused                   // its Idempotency-Key was used for other records
)

// Verdict is what the table knows of a batch.
type Verdict struct {
	Outcome    Outcome
	Base, Last partition.Offset // of a Duplicate: first and last record
	Next       uint64           // of a Gap: the sequence that is expected
}

// sent is a batch of a session.
type sent struct {
	first uint64 // sequence of its first record
	count uint32
	crc   uint32
	base  partition.Offset
}

func (b sent) end() uint64 { return b.first + uint64(b.count) }

// keyedOf is what is remembered of a batch by its Idempotency-Key.
func keyedOf(h *batch.Header) sent {
	b := sentOf(h)
	b.first = 0
	return b
}

func sentOf(h *batch.Header) sent {
	return sent{first: h.BaseSequence, count: h.RecordCount, crc: h.BodyCRC, base: partition.Offset(h.BaseOffset)}
}

// session is the committed state of a producer in this partition.
type session struct {
	next    uint64
	time    int64 // append time of the last batch
	n       int
	batches [remembered]sent // oldest first
}

func (s *session) add(b sent, time int64) {
	if s.n == remembered {
		copy(s.batches[:], s.batches[1:])
		s.n--
	}
	s.batches[s.n] = b
	s.n++
	s.next, s.time = b.end(), time
}

// key is a remembered Idempotency-Key.
type key struct {
	id   batch.Key128
	sent sent // its place and contents, without a sequence
	time int64
}

// Table knows the producers of one partition. The zero value is not ready; New makes one.
type Table struct {
	sessions map[uint64]*session
	pending  map[uint64][]sent // above the high watermark, oldest first
	keys     map[batch.Key128]sent
	order    []key // of keys, by append; oldest first
	gone     int   // entries of order before it are gone
	overlay  map[batch.Key128]sent
}

// New makes an empty table.
func New() *Table {
	return &Table{
		sessions: map[uint64]*session{}, pending: map[uint64][]sent{},
		keys: map[batch.Key128]sent{}, overlay: map[batch.Key128]sent{},
	}
}

// Sessions tells how many there are.
func (t *Table) Sessions() int { return len(t.sessions) }

// Keys tells how many Idempotency-Keys are remembered.
func (t *Table) Keys() int { return len(t.keys) }

// Check tells what to do with an unstamped batch, what is above the high watermark included.
func (t *Table) Check(h *batch.Header) Verdict {
	if h.ProducerID != 0 {
		if v := t.checkSequence(h.ProducerID, sentOf(h)); v.Outcome != Fresh {
			return v
		}
	}
	if !h.DedupeKey.IsZero() {
		known, ok := t.overlay[h.DedupeKey]
		if !ok {
			known, ok = t.keys[h.DedupeKey]
		}
		switch {
		case ok && (known.count != h.RecordCount || known.crc != h.BodyCRC):
			return Verdict{Outcome: KeyReused}
		case ok:
			return duplicate(known.base, known.count)
		}
	}
	return Verdict{Outcome: Fresh}
}

func duplicate(base partition.Offset, count uint32) Verdict {
	return Verdict{Outcome: Duplicate, Base: base, Last: base + partition.Offset(max(count, 1)-1)}
}

func (t *Table) checkSequence(id uint64, b sent) Verdict {
	var known []sent
	next, found := uint64(0), false
	if s := t.sessions[id]; s != nil {
		known, next, found = s.batches[:s.n], s.next, true
	}
	pending := t.pending[id]
	if len(pending) > 0 {
		next, found = pending[len(pending)-1].end(), true
	}
	switch {
	case !found && b.first == 0:
		return Verdict{Outcome: Fresh}
	case !found:
		return Verdict{Outcome: Unknown}
	case b.first == next:
		return Verdict{Outcome: Fresh}
	case b.first > next:
		return Verdict{Outcome: Gap, Next: next}
	}
	oldest := next
	for _, list := range [2][]sent{known, pending} {
		for _, k := range list {
			if k.first == b.first && k.count == b.count {
				if k.crc != b.crc {
					return Verdict{Outcome: Reused}
				}
				return duplicate(k.base, k.count)
			}
			oldest = min(oldest, k.first)
		}
	}
	if b.end() <= oldest {
		return Verdict{Outcome: OldDuplicate}
	}
	return Verdict{Outcome: Reused}
}

// Append takes in a batch that is in the log at its base offset now, not yet committed. One that was taken in before changes nothing, even
// behind others: a group is taken in batch by batch while it is decided, and again when it is appended.
func (t *Table) Append(h *batch.Header) {
	if h.ProducerID != 0 {
		pending := t.pending[h.ProducerID]
		if n := len(pending); n == 0 || pending[n-1].base < partition.Offset(h.BaseOffset) {
			t.pending[h.ProducerID] = append(pending, sentOf(h))
		}
	}
	if !h.DedupeKey.IsZero() {
		t.overlay[h.DedupeKey] = keyedOf(h)
	}
}

// Cut takes back a batch that Append took in: the newest that is not committed.
func (t *Table) Cut(h *batch.Header) {
	if pending := t.pending[h.ProducerID]; len(pending) > 0 && pending[len(pending)-1].base == partition.Offset(h.BaseOffset) {
		t.setPending(h.ProducerID, pending[:len(pending)-1])
	}
	if b, ok := t.overlay[h.DedupeKey]; ok && b.base == partition.Offset(h.BaseOffset) {
		delete(t.overlay, h.DedupeKey)
	}
}

// Commit takes in a batch that is committed now, in log order. Append need not have seen it: recovery folds what is known to be committed.
func (t *Table) Commit(h *batch.Header) {
	base := partition.Offset(h.BaseOffset)
	if h.ProducerID != 0 {
		if pending := t.pending[h.ProducerID]; len(pending) > 0 && pending[0].base == base {
			t.setPending(h.ProducerID, pending[1:])
		}
		s := t.sessions[h.ProducerID]
		if s == nil {
			s = &session{}
			t.sessions[h.ProducerID] = s
		}
		s.add(sentOf(h), h.AppendTime)
	}
	if !h.DedupeKey.IsZero() {
		if pending, ok := t.overlay[h.DedupeKey]; ok && pending.base == base {
			delete(t.overlay, h.DedupeKey)
		}
		t.keys[h.DedupeKey] = keyedOf(h)
		t.order = append(t.order, key{id: h.DedupeKey, sent: keyedOf(h), time: h.AppendTime})
	}
	t.forget(h.AppendTime - Window.Microseconds())
}

func (t *Table) setPending(id uint64, pending []sent) {
	if len(pending) == 0 {
		delete(t.pending, id)
		return
	}
	t.pending[id] = pending
}

// forget drops keys appended before a time, and the oldest beyond KeysMax.
func (t *Table) forget(before int64) {
	for t.gone < len(t.order) && (t.order[t.gone].time < before || len(t.order)-t.gone > KeysMax) {
		k := t.order[t.gone]
		if t.keys[k.id] == k.sent {
			delete(t.keys, k.id)
		}
		t.gone++
	}
	if t.gone > 1024 && t.gone > len(t.order)/2 {
		t.order = slices.Delete(t.order, 0, t.gone)
		t.gone = 0
	}
}

// Expire forgets sessions that a committed ProducerExpire names.
func (t *Table) Expire(ids []uint64) {
	for _, id := range ids {
		delete(t.sessions, id)
	}
}

// Expirable names sessions that the leader should expire: those idle since before now - IdleMax, and the longest idle beyond SessionsMax. Sessions
// with batches above the high watermark are not named. Sorted by id, at most a record's worth.
func (t *Table) Expirable(now int64) []uint64 {
	var out []uint64
	surplus := len(t.sessions) - SessionsMax
	if surplus > 0 {
		surplus += SessionsMax / 100 // do not come back for every new one
	}
	type idle struct {
		id   uint64
		time int64
	}
	var candidates []idle
	for id, s := range t.sessions {
		if len(t.pending[id]) > 0 {
			continue
		}
		if now-s.time > IdleMax.Microseconds() || surplus > 0 {
			candidates = append(candidates, idle{id, s.time})
		}
	}
	slices.SortFunc(candidates, func(a, b idle) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id)) })
	for i, c := range candidates {
		if len(out) == expireMax || i >= surplus && now-c.time <= IdleMax.Microseconds() {
			break
		}
		out = append(out, c.id)
	}
	slices.Sort(out)
	return out
}
