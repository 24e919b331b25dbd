package producer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// batchOf makes the header of a batch: count records of a producer from a sequence on, at an offset.
func batchOf(pid, seq uint64, count uint32, crc uint32, base partition.Offset) *batch.Header {
	return &batch.Header{
		ProducerID: pid, BaseSequence: seq, RecordCount: count, LastOffsetDelta: count - 1, BodyCRC: crc, BaseOffset: uint64(base), AppendTime: int64(base),
	}
}

// stored puts batches in the table, committed.
func stored(t *Table, all ...*batch.Header) {
	for _, h := range all {
		t.Append(h)
		t.Commit(h)
	}
}

func TestCheck(t *testing.T) {
	table := New()
	for i := range uint64(7) { // sequences 0..13 at offsets 100..113; the first two batches are forgotten
		stored(table, batchOf(1, 2*i, 2, uint32(i), partition.Offset(100+2*i)))
	}
	table.Append(batchOf(1, 14, 3, 77, 200)) // not committed
	table.Append(batchOf(2, 0, 1, 5, 203))
	for _, c := range []struct {
		name string
		h    *batch.Header
		want Verdict
	}{
		{"next", batchOf(1, 17, 1, 0, 0), Verdict{Outcome: Fresh}},
		{"first of a new producer", batchOf(9, 0, 1, 0, 0), Verdict{Outcome: Fresh}},
		{"not idempotent", batchOf(0, 0, 1, 0, 0), Verdict{Outcome: Fresh}},
		{"remembered", batchOf(1, 12, 2, 6, 0), Verdict{Outcome: Duplicate, Base: 112, Last: 113}},
		{"oldest remembered", batchOf(1, 4, 2, 2, 0), Verdict{Outcome: Duplicate, Base: 104, Last: 105}},
		{"not committed", batchOf(1, 14, 3, 77, 0), Verdict{Outcome: Duplicate, Base: 200, Last: 202}},
		{"not committed, of a new producer", batchOf(2, 0, 1, 5, 0), Verdict{Outcome: Duplicate, Base: 203, Last: 203}},
		{"forgotten", batchOf(1, 2, 2, 1, 0), Verdict{Outcome: OldDuplicate}},
		{"other bytes", batchOf(1, 12, 2, 99, 0), Verdict{Outcome: Reused}},
		{"other bytes, not committed", batchOf(1, 14, 3, 78, 0), Verdict{Outcome: Reused}},
		{"other bounds", batchOf(1, 13, 2, 6, 0), Verdict{Outcome: Reused}},
		{"across the oldest remembered", batchOf(1, 3, 2, 1, 0), Verdict{Outcome: Reused}},
		{"gap", batchOf(1, 18, 1, 0, 0), Verdict{Outcome: Gap, Next: 17}},
		{"unknown", batchOf(9, 1, 1, 0, 0), Verdict{Outcome: Unknown}},
	} {
		if diff := cmp.Diff(c.want, table.Check(c.h)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// What is cut from the log is taken back, newest first, and may be sent again.
func TestCut(t *testing.T) {
	table := New()
	stored(table, batchOf(1, 0, 1, 1, 10))
	a, b := batchOf(1, 1, 1, 2, 11), batchOf(1, 2, 1, 3, 12)
	b.DedupeKey = batch.Key128{Lo: 5}
	table.Append(a)
	table.Append(b)
	table.Append(b) // told twice
	table.Cut(b)
	if v := table.Check(b); v.Outcome != Fresh {
		t.Errorf("after its cut: %+v", v)
	}
	table.Cut(a)
	if v := table.Check(b); v.Outcome != Gap || v.Next != 1 {
		t.Errorf("after the cut of the one before: %+v", v)
	}
	if v := table.Check(a); v.Outcome != Fresh {
		t.Errorf("the one before: %+v", v)
	}
	if v := table.Check(batchOf(1, 0, 1, 1, 0)); v.Outcome != Duplicate {
		t.Errorf("what is committed stays: %+v", v)
	}
}

func keyed(lo uint64, base partition.Offset, at time.Duration) *batch.Header {
	return &batch.Header{DedupeKey: batch.Key128{Lo: lo}, RecordCount: 2, LastOffsetDelta: 1, BaseOffset: uint64(base), AppendTime: at.Microseconds()}
}

// A group is taken in while it is decided and again when it is appended. Taken back, nothing of it is left: a batch that is not stored must
// not be answered as a duplicate.
func TestCutOfAGroupThatWasTakenInTwice(t *testing.T) {
	table := New()
	group := []*batch.Header{batchOf(1, 0, 1, 5, 10), batchOf(1, 1, 2, 6, 11)}
	for range 2 {
		for _, h := range group {
			table.Append(h)
		}
	}
	table.Cut(group[1])
	table.Cut(group[0])
	if v := table.Check(batchOf(1, 0, 1, 5, 0)); v.Outcome != Fresh {
		t.Errorf("the first batch of a group that was cut: %+v", v)
	}
}

func TestKeys(t *testing.T) {
	table := New()
	stored(table, keyed(1, 10, 0), keyed(2, 12, time.Minute))
	table.Append(keyed(3, 14, 2*time.Minute))
	for _, c := range []struct {
		key  uint64
		want Verdict
	}{
		{1, Verdict{Outcome: Duplicate, Base: 10, Last: 11}},
		{2, Verdict{Outcome: Duplicate, Base: 12, Last: 13}},
		{3, Verdict{Outcome: Duplicate, Base: 14, Last: 15}},
		{4, Verdict{Outcome: Fresh}},
	} {
		if diff := cmp.Diff(c.want, table.Check(keyed(c.key, 0, 0))); diff != "" {
			t.Errorf("key %d (-want +got):\n%s", c.key, diff)
		}
	}
	// The same key with other contents is another request, stored or not yet.
	for key := range uint64(3) {
		for _, change := range []func(*batch.Header){
			func(h *batch.Header) { h.BodyCRC++ },
			func(h *batch.Header) { h.RecordCount, h.LastOffsetDelta = 3, 2 },
		} {
			other := keyed(key+1, 0, 0)
			change(other)
			if v := table.Check(other); v.Outcome != KeyReused {
				t.Errorf("key %d with other contents: %+v", key+1, v)
			}
		}
	}
	// The window is a matter of append times: the first key is out of it, the second is not.
	stored(table, keyed(5, 20, Window+time.Second))
	if v := table.Check(keyed(1, 0, 0)); v.Outcome != Fresh {
		t.Errorf("beyond the window: %+v", v)
	}
	if v := table.Check(keyed(2, 0, 0)); v.Outcome != Duplicate {
		t.Errorf("within the window: %+v", v)
	}
	// A key that came back after its window counts from then.
	stored(table, keyed(1, 30, Window+time.Minute))
	stored(table, keyed(6, 40, 2*Window))
	if v := table.Check(keyed(1, 0, 0)); v.Outcome != Duplicate || v.Base != 30 {
		t.Errorf("the second time: %+v", v)
	}
}

// history is the whole of what was sent, for comparison.
type history struct {
	batches map[uint64][]sent
}

func (h *history) verdict(pid uint64, b sent) Outcome {
	all := h.batches[pid]
	var next uint64
	if n := len(all); n > 0 {
		next = all[n-1].end()
	}
	switch {
	case len(all) == 0 && b.first > 0:
		return Unknown
	case b.first == next:
		return Fresh
	case b.first > next:
		return Gap
	}
	i := slices.IndexFunc(all, func(k sent) bool { return k.first == b.first && k.count == b.count })
	switch {
	case i >= 0 && i >= len(all)-remembered && all[i].crc == b.crc:
		return Duplicate
	case i >= 0 && i >= len(all)-remembered:
		return Reused
	case b.end() <= all[max(0, len(all)-remembered)].first:
		return OldDuplicate
	default:
		return Reused
	}
}

// TestAgainstHistory compares verdicts with those of the whole history, through commits, cuts and snapshots.
func TestAgainstHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table, all := New(), &history{batches: map[uint64][]sent{}}
	var pending []*batch.Header
	var base partition.Offset
	seen := map[Outcome]int{}
	for i := range 50_000 {
		pid := uint64(1 + rng.IntN(5))
		b := sent{first: uint64(rng.IntN(8)), count: uint32(1 + rng.IntN(3)), crc: uint32(rng.IntN(2))}
		if sessions := all.batches[pid]; len(sessions) > 0 {
			b.first += max(sessions[len(sessions)-1].end(), 7) - 7
			if rng.IntN(2) == 0 {
				b = sessions[max(0, len(sessions)-1-rng.IntN(7))]
			} else if rng.IntN(2) == 0 {
				b.first = sessions[len(sessions)-1].end()
			}
		}
		h := batchOf(pid, b.first, b.count, b.crc, base)
		got, want := table.Check(h).Outcome, all.verdict(pid, b)
		// The overlay remembers more than five: what the history calls old it may still find.
		more := len(pending) > 0 && (want == OldDuplicate && got != Fresh || want == Reused && got == Duplicate)
		if got != want && !more {
			t.Fatalf("step %d, producer %d, %+v: %d, want %d", i, pid, b, got, want)
		}
		seen[got]++
		if got == Fresh {
			b.base = base
			table.Append(h)
			pending = append(pending, h)
			all.batches[pid] = append(all.batches[pid], b)
			base += partition.Offset(b.count)
		}
		switch x := rng.IntN(100); {
		case x < 40 && len(pending) > 0:
			table.Commit(pending[0])
			pending = pending[1:]
		case x < 43:
			for len(pending) > 0 {
				last := pending[len(pending)-1]
				table.Cut(last)
				pending = pending[:len(pending)-1]
				list := all.batches[last.ProducerID]
				if all.batches[last.ProducerID] = list[:len(list)-1]; len(list) == 1 {
					delete(all.batches, last.ProducerID)
				}
				base = partition.Offset(last.BaseOffset)
			}
		case x < 45 && len(pending) == 0:
			table = reload(t, table)
		}
	}
	for o := Fresh; o <= Unknown; o++ {
		if seen[o] == 0 {
			t.Errorf("outcome %d did not occur: %v", o, seen)
		}
	}
}

func encode(t *testing.T, table *Table) []byte {
	t.Helper()
	m, seg := capnp.NewSingleSegmentMessage(nil)
	out, err := batchcapnp.NewRootSnapshot(seg)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Fill(out); err != nil {
		t.Fatal(err)
	}
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reload writes a table and reads it back; writing that gives the same bytes.
func reload(t *testing.T, table *Table) *Table {
	t.Helper()
	data := encode(t, table)
	m, err := capnp.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	in, err := batchcapnp.ReadRootSnapshot(m)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, encode(t, loaded)) {
		t.Fatal("a table that was read back writes other bytes")
	}
	return loaded
}

func TestExpirable(t *testing.T) {
	table := New()
	hour := time.Hour.Microseconds()
	for i := range uint64(10) {
		h := batchOf(i+1, 0, 1, 0, partition.Offset(i))
		h.AppendTime = int64(i) * hour
		stored(table, h)
	}
	table.Append(batchOf(1, 1, 1, 0, 50)) // in use
	now := IdleMax.Microseconds() + 3*hour + 1
	if diff := cmp.Diff([]uint64{2, 3, 4}, table.Expirable(now)); diff != "" {
		t.Errorf("idle (-want +got):\n%s", diff)
	}
	table.Expire([]uint64{2, 3, 4})
	if got := table.Expirable(now); len(got) != 0 || table.Sessions() != 7 {
		t.Errorf("after the expiry: %v, %d sessions", got, table.Sessions())
	}
	if v := table.Check(batchOf(3, 1, 1, 0, 0)); v.Outcome != Unknown {
		t.Errorf("an expired producer: %+v", v)
	}
	// Too many: the longest idle go.
	for i := range uint64(SessionsMax) {
		h := batchOf(1000+i, 0, 1, 0, 0)
		h.AppendTime = 20*hour + int64(i)
		stored(table, h)
	}
	got := table.Expirable(21 * hour)
	if len(got) != 7-1+1+SessionsMax/100 || !slices.Contains(got, 5) || slices.Contains(got, 1) || slices.Contains(got, 1000+SessionsMax-1) {
		t.Errorf("too many: %d ids, first %v", len(got), got[:min(3, len(got))])
	}
}

func TestForgottenKeysAreNotKept(t *testing.T) {
	table := New()
	for i := range 5000 {
		stored(table, keyed(uint64(i+1), partition.Offset(2*i), time.Duration(i)*time.Second))
	}
	if want := int(Window/time.Second) + 1; table.Keys() != want || len(table.order)-table.gone != want {
		t.Errorf("%d keys, %d in order, want %d", table.Keys(), len(table.order)-table.gone, want)
	}
	if cap(table.order) > 8000 {
		t.Errorf("the order of keys has grown to %d", cap(table.order))
	}
}
