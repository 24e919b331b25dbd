package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Kind is what is wrong.
type Kind string

// The kinds.
const (
	Lost      Kind = "lost"      // acknowledged or read before, and not there
	Stale     Kind = "stale"     // acknowledged before, and beyond where the reading ended: an old end, or lost at the end
	Duplicate Kind = "duplicate" // one record at two offsets
	Misplaced Kind = "misplaced" // another offset than that of the ack, or of an earlier reading
	Aborted   Kind = "aborted"   // there, although its write failed or never was
	Reordered Kind = "reordered" // before a record that was there first
	Wrong     Kind = "wrong"     // bytes that nobody wrote
)

// Anomaly is one thing that must not be.
type Anomaly struct {
	Kind      Kind
	Partition int
	Offset    int64 // -1 = none
	ID        ID
	Text      string
}

// String says all of it.
func (a Anomaly) String() string {
	return fmt.Sprintf("%s: record %v, partition %d, offset %d: %s", a.Kind, a.ID, a.Partition, a.Offset, a.Text)
}

type outcome uint8

const (
	pending outcome = iota
	acked
	failed
	unknown
)

// op is a write of one record.
type op struct {
	partition      int
	outcome        outcome
	offset         int64 // of the ack; -1 = not told
	invoked, ended uint64
}

type place struct {
	partition int
	offset    int64
}

// Counts are how many records there are of each outcome.
type Counts struct{ Invoked, Acked, Failed, Unknown int }

// History is of one topic.
type History struct {
	mu struct {
		sync.Mutex
		clock   uint64
		next    map[int]int // number, by session
		ops     map[ID]*op
		seen    map[ID]place  // in any reading
		at      map[place]ID  // the same, by place
		trimmed map[int]int64 // by partition: below it all may be gone
		counts  Counts
	}
}

// New makes an empty one.
func New() *History {
	h := &History{}
	h.mu.next, h.mu.ops, h.mu.seen, h.mu.at = map[int]int{}, map[ID]*op{}, map[ID]place{}, map[place]ID{}
	h.mu.trimmed = map[int]int64{}
	return h
}

// Invoke says that a session begins to write its next record, to a partition.
func (h *History) Invoke(session, partition int) ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := ID{session, h.mu.next[session]}
	h.mu.next[session]++
	h.mu.clock++
	h.mu.ops[id] = &op{partition: partition, offset: -1, invoked: h.mu.clock, ended: math.MaxUint64}
	h.mu.counts.Invoked++
	return id
}

// OK says that a record was acknowledged at an offset, -1 = not told.
func (h *History) OK(id ID, offset int64) { h.end(id, acked, offset) }

// Fail says that a write ended with the promise that it is not there.
func (h *History) Fail(id ID) { h.end(id, failed, -1) }

// Unknown says that nobody knows.
func (h *History) Unknown(id ID) { h.end(id, unknown, -1) }

func (h *History) end(id ID, as outcome, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.clock++
	o := h.mu.ops[id]
	if o == nil || o.outcome != pending {
		panic(fmt.Sprintf("history: record %v is not being written", id))
	}
	o.outcome, o.offset = as, offset
	switch as {
	case acked:
		o.ended = h.mu.clock
		h.mu.counts.Acked++
	case failed:
		h.mu.counts.Failed++
	default:
		h.mu.counts.Unknown++
	}
}

// Trimmed says that a partition is being trimmed below an offset. Call it before the trim.
func (h *History) Trimmed(partition int, before int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.trimmed[partition] = max(h.mu.trimmed[partition], before)
}

// Counts gives how much happened.
func (h *History) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.counts
}

// mayBeGone tells whether a place was trimmed. h.mu is held.
func (h *History) mayBeGone(p place) bool { return p.offset < h.mu.trimmed[p.partition] }

// entry is a record of a reading.
type entry struct {
	offset int64
	id     ID
}

// Reading is one pass over partitions.
type Reading struct {
	history *History
	began   uint64
	records map[int][]entry
	bad     []Anomaly
}

// Begin begins a reading: all that is acknowledged up to now must be in it, if it is Complete.
func (h *History) Begin() *Reading {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Reading{history: h, began: h.mu.clock, records: map[int][]entry{}}
}

// Observe is called for each record of a reading, in the order in which they come.
func (r *Reading) Observe(partition int, offset int64, value []byte) {
	id, err := Parse(value)
	if err != nil {
		r.bad = append(r.bad, Anomaly{Wrong, partition, offset, id, err.Error()})
		return
	}
	r.records[partition] = append(r.records[partition], entry{offset, id})
}

// Records gives how many were observed.
func (r *Reading) Records() int {
	n := 0
	for _, records := range r.records {
		n += len(records)
	}
	return n
}

// Complete checks a reading that went from the log start to the end as it was when the reading began, or later.
func (r *Reading) Complete() []Anomaly {
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	bad := r.check()
	there := map[ID]bool{}
	for partition, records := range r.records {
		bad = append(bad, h.ordered(partition, records)...)
		for _, e := range records {
			there[e.id] = true
		}
	}
	for id, o := range h.mu.ops {
		if o.outcome == acked && o.ended <= r.began && !there[id] && !h.mayBeGone(place{o.partition, o.offset}) {
			kind := Lost
			if o.offset >= 0 && !r.covers(place{o.partition, o.offset}) {
				kind = Stale
			}
			bad = append(bad, Anomaly{kind, o.partition, o.offset, id, "acknowledged before the reading began"})
		} else if p, read := h.mu.seen[id]; read && !there[id] && o.outcome != acked && !h.mayBeGone(p) && r.covers(p) {
			bad = append(bad, Anomaly{Lost, p.partition, p.offset, id, "an earlier reading had it"})
		}
	}
	return sorted(bad)
}

// covers tells whether a place lies below what the reading saw last.
func (r *Reading) covers(p place) bool {
	records := r.records[p.partition]
	return len(records) > 0 && records[len(records)-1].offset > p.offset
}

// Follows checks a reading that followed the log while it grew, against a complete one of later: up to where it came it must have seen all
// that the other has, and nothing else.
func (r *Reading) Follows(all *Reading) []Anomaly {
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	bad := r.check()
	for partition, records := range r.records {
		have := map[ID]bool{}
		for _, e := range records {
			have[e.id] = true
		}
		first, last := records[0].offset, records[len(records)-1].offset
		for _, e := range all.records[partition] {
			if e.offset >= first && e.offset <= last && !have[e.id] {
				bad = append(bad, Anomaly{Lost, partition, e.offset, e.id, "a reader that followed the log went past it"})
			}
		}
	}
	return sorted(bad)
}

// check checks what holds for every reading, and takes it over into what is known. h.mu is held.
func (r *Reading) check() []Anomaly {
	h := r.history
	bad := r.bad
	for partition, records := range r.records {
		here := map[ID]int64{}
		last := int64(-1)
		for _, e := range records {
			if e.offset <= last {
				bad = append(bad, Anomaly{Reordered, partition, e.offset, e.id, fmt.Sprintf("read behind offset %d", last)})
			}
			last = e.offset
			if before, twice := here[e.id]; twice {
				bad = append(bad, Anomaly{Duplicate, partition, e.offset, e.id, fmt.Sprintf("also at offset %d", before)})
				continue
			}
			here[e.id] = e.offset
			bad = append(bad, h.judge(place{partition, e.offset}, e.id)...)
		}
	}
	return bad
}

// judge checks one record at its place. h.mu is held.
func (h *History) judge(p place, id ID) []Anomaly {
	o := h.mu.ops[id]
	anomaly := func(kind Kind, format string, args ...any) []Anomaly {
		return []Anomaly{{kind, p.partition, p.offset, id, fmt.Sprintf(format, args...)}}
	}
	switch {
	case o == nil:
		return anomaly(Aborted, "nobody wrote it")
	case o.outcome == failed:
		return anomaly(Aborted, "its write failed for certain")
	case o.partition != p.partition:
		return anomaly(Misplaced, "written to partition %d", o.partition)
	case o.outcome == acked && o.offset >= 0 && o.offset != p.offset:
		return anomaly(Misplaced, "acknowledged at offset %d", o.offset)
	}
	if before, known := h.mu.seen[id]; known && before != p {
		return anomaly(Misplaced, "an earlier reading had it at offset %d", before.offset)
	}
	if other, known := h.mu.at[p]; known && other != id {
		return anomaly(Misplaced, "an earlier reading had record %v there", other)
	}
	h.mu.seen[id], h.mu.at[p] = p, id
	return nil
}

// ordered checks rule 4 in the order of offsets. h.mu is held.
func (h *History) ordered(partition int, records []entry) []Anomaly {
	records = slices.SortedFunc(slices.Values(records), func(a, b entry) int { return cmp.Compare(a.offset, b.offset) })
	var bad []Anomaly
	latest := struct {
		id      ID
		invoked uint64
	}{}
	session, here := map[int]entry{}, map[ID]bool{}
	for _, e := range records {
		o := h.mu.ops[e.id]
		if o == nil || here[e.id] {
			continue // told as aborted, or as a duplicate
		}
		here[e.id] = true
		if o.ended < latest.invoked {
			text := fmt.Sprintf("answered before record %v was begun, which lies before it", latest.id)
			bad = append(bad, Anomaly{Reordered, partition, e.offset, e.id, text})
		}
		if o.invoked > latest.invoked {
			latest.id, latest.invoked = e.id, o.invoked
		}
		if o.outcome != acked {
			continue
		}
		if before, ok := session[e.id.Session]; ok && before.id.Number > e.id.Number {
			text := fmt.Sprintf("record %v of the same session, begun later, lies before it at %d", before.id, before.offset)
			bad = append(bad, Anomaly{Reordered, partition, e.offset, e.id, text})
			continue
		}
		session[e.id.Session] = e
	}
	return bad
}

// sorted gives anomalies by place.
func sorted(bad []Anomaly) []Anomaly {
	slices.SortFunc(bad, func(a, b Anomaly) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Kind, b.Kind))
	})
	return bad
}
