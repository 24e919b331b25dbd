package compact

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/proto/batch"
)

// record is one of the log. A nil value is a tombstone, "" as a key means none.
type record struct {
	key   string
	value []byte
	time  int64 // append time
}

// world is a log of segments, each a list of messages, and what was ever in it.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	leader   *segmenttest.Leader
	segments [][][]byte
	bounds   []Segment
	records  map[partition.Offset]record
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), leader: segmenttest.New(t), records: map[partition.Offset]record{}}
	for range 2 + w.rng.IntN(6) {
		w.grow()
	}
	return w
}

// grow appends a segment.
func (w *world) grow() {
	base := w.leader.End
	var segment [][]byte
	keys := 1 + w.rng.IntN(12)
	for i := range 1 + w.rng.IntN(8) {
		if w.rng.IntN(5) == 0 {
			segment = append(segment, w.leader.Control(i == 0))
			continue
		}
		segment = append(segment, w.data(i == 0, keys))
	}
	w.segments = append(w.segments, segment)
	w.bounds = append(w.bounds, Segment{Base: base, End: w.leader.End, Size: size(segment)})
}

func size(segment [][]byte) (n int64) {
	for _, msg := range segment {
		n += int64(len(msg))
	}
	return n
}

func (w *world) data(cut bool, keys int) []byte {
	var b batch.Builder
	at := w.leader.End
	for range 1 + w.rng.IntN(5) {
		r := record{key: fmt.Sprintf("key-%d", w.rng.IntN(keys)), time: w.leader.AppendTime + 10}
		rec := batch.Record{Key: []byte(r.key), Timestamp: w.rng.Int64N(1000), Priority: uint8(w.rng.IntN(2))}
		switch w.rng.IntN(6) {
		case 0:
			r.key, rec.Key = "", nil
			fallthrough
		case 1, 2, 3, 4:
			// Long enough that a batch without it is smaller for sure.
			r.value = bytes.Repeat([]byte{byte(w.rng.Uint32()), byte(w.rng.Uint32())}, 40+w.rng.IntN(40))
			rec.Value = r.value
		}
		if w.rng.IntN(3) == 0 {
			rec.Headers = []batch.RecordHeader{{Key: "h", Value: []byte(r.key)}, {Key: "n"}}
		}
		if err := b.Add(rec); err != nil {
			w.t.Fatal(err)
		}
		w.records[at] = r
		at++
	}
	o := batch.BuildOptions{ProducerID: 7, BaseSequence: uint64(at), KeyHashes: w.rng.IntN(2) == 0}
	msg, err := b.Build(nil, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.leader.Stamp(msg, cut)
}

// contents reads all records, and sees that the batches cover the offsets without a gap and scan as a log does.
func (w *world) contents() map[partition.Offset]record {
	out := map[partition.Offset]record{}
	var reader batch.Reader
	place := segment.Place{}
	for i, messages := range w.segments {
		all := bytes.Join(messages, nil)
		var s segment.Scanner
		place.Position = 0
		s.Reset(bytes.NewReader(all), int64(len(all)), w.bounds[i].Base, segmenttest.Tag, place, 0)
		for s.Next() {
			if s.Header().IsControl() {
				continue
			}
			if err := reader.Reset(s.Message()); err != nil {
				w.t.Fatal(err)
			}
			var rec batch.Record
			for j := range reader.Len() {
				reader.Record(j, &rec)
				at := partition.Offset(reader.Offset(j))
				if rec.Priority > 1 || len(rec.Headers) > 0 && string(rec.Headers[0].Value) != string(rec.Key) {
					w.t.Fatalf("record %d has priority %d and headers %v", at, rec.Priority, rec.Headers)
				}
				out[at] = record{string(rec.Key), bytes.Clone(rec.Value), s.Header().AppendTime}
			}
		}
		if s.Err() != nil || s.Place().Offset != w.bounds[i].End {
			w.t.Fatalf("segment %d ends at %d, want %d: %v", w.bounds[i].Base, s.Place().Offset, w.bounds[i].End, s.Err())
		}
		place = s.Place()
	}
	return out
}

// newest folds records into what a reader from the beginning knows of each key in the end.
func newest(records map[partition.Offset]record) map[string]string {
	out := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(records)) {
		r := records[at]
		switch {
		case r.key == "":
			out[fmt.Sprint("offset ", at)] = string(r.value)
		case r.value == nil:
			delete(out, r.key)
		default:
			out[r.key] = string(r.value)
		}
	}
	return out
}

// pass carries out a plan as the replica does, and checks after every segment that a reader finds what it would have found without.
func (w *world) pass(plan Plan, memory int64) (full partition.Offset, tombstone int64) {
	want := newest(w.records)
	keys := NewKeys(memory, plan.From)
	for i := range plan.Learn {
		for _, msg := range w.segments[i] {
			h := w.leader.Header(msg)
			keys.Learn(&h, msg)
		}
	}
	for i := range plan.Rewrite {
		var out [][]byte
		looker := NewRewriter(keys, plan.TombstonesBefore, nil)
		goes := false
		writer := NewRewriter(keys, plan.TombstonesBefore, func(msg []byte) error {
			out = append(out, bytes.Clone(msg))
			return nil
		})
		for _, msg := range w.segments[i] {
			h := w.leader.Header(msg)
			goes = looker.Look(&h, msg) || goes
			if err := writer.Add(&h, msg); err != nil {
				w.t.Fatal(err)
			}
		}
		if err := writer.Finish(); err != nil {
			w.t.Fatal(err)
		}
		stats := writer.Stats()
		if same := bytes.Equal(bytes.Join(out, nil), bytes.Join(w.segments[i], nil)); same == stats.Changed() || stats.BytesOut > stats.BytesIn || stats.Changed() && !goes {
			w.t.Fatalf("segment %d: same bytes %v, looked %v, %+v", plan.Rewrite[i].Base, same, goes, stats)
		}
		if s := stats.Tombstone; s != 0 && (tombstone == 0 || s < tombstone) {
			tombstone = s
		}
		w.segments[i] = out
		w.bounds[i].Size = size(out)
		if diff := cmp.Diff(want, newest(w.contents())); diff != "" {
			w.t.Fatalf("after segment %d a reader finds other values (-want +got):\n%s", plan.Rewrite[i].Base, diff)
		}
	}
	return keys.Full(), tombstone
}

// A log is compacted again and again while it grows, with room for all keys or for a few of them, and compared with maps: what a reader knows in
// the end never changes, records keep their offsets and content, and with enough passes exactly the newest of each key is left.
func TestModel(t *testing.T) {
	for seed := range uint64(120) {
		w := newWorld(t, seed)
		var past Past
		memory := int64(1 << 20)
		if seed%3 == 0 {
			memory = keyCost * int64(1+w.rng.IntN(4))
		}
		age := time.Duration(1+w.rng.IntN(400)) * time.Microsecond
		for range 4 {
			now := w.leader.AppendTime
			var plan Plan
			passes := 0
			for due := true; due; passes++ {
				if plan, due = past.Next(w.bounds, true, age, now); due {
					full, tombstone := w.pass(plan, memory)
					past = past.Done(plan, full, tombstone)
				}
				if passes > 200 {
					t.Fatalf("seed %d: passes without end: %+v", seed, past)
				}
			}
			if past.Clean == w.leader.End {
				w.check(seed, plan)
			}
			w.grow()
			w.grow()
		}
	}
}

// check compares what is left with the rules.
func (w *world) check(seed uint64, plan Plan) {
	w.t.Helper()
	left := w.contents()
	newest := map[string]partition.Offset{}
	point := plan.Rewrite[len(plan.Rewrite)-1].End
	for at, r := range w.records {
		if r.key != "" {
			newest[r.key] = max(newest[r.key], at)
		}
	}
	for at, r := range w.records {
		got, here := left[at]
		if here && (got.key != r.key || !bytes.Equal(got.value, r.value) || (got.value == nil) != (r.value == nil) || got.time != r.time) {
			w.t.Fatalf("seed %d: record %d became %+v, was %+v", seed, at, got, r)
		}
		old := r.value == nil && r.time < plan.TombstonesBefore
		switch {
		case at >= point || r.key == "" || at == newest[r.key] && !old:
			if !here {
				w.t.Fatalf("seed %d: record %d of key %q is gone", seed, at, r.key)
			}
		case at < newest[r.key]:
			if here && r.value != nil { // a batch without one of its tombstones may be larger, and then it stays
				w.t.Fatalf("seed %d: record %d of key %q is still there, the newest is %d", seed, at, r.key, newest[r.key])
			}
		}
	}
}

// A tombstone stays as long as anything that it shadows does: here because the batch without the old value would be larger.
func TestTombstoneOfWhatStays(t *testing.T) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(1, 1)), leader: segmenttest.New(t), records: map[partition.Offset]record{}}
	var b batch.Builder
	for i := range 400 {
		if err := b.Add(batch.Record{Key: fmt.Appendf(nil, "%03d", i), Value: []byte{}}); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := w.leader.Stamp(msg, true)
	b.Reset()
	if err := b.Add(batch.Record{Key: []byte("007")}); err != nil {
		t.Fatal(err)
	}
	if msg, err = b.Build(nil, batch.BuildOptions{}); err != nil {
		t.Fatal(err)
	}
	second := w.leader.Stamp(msg, true)
	w.segments = [][][]byte{{first}, {second}}
	w.bounds = []Segment{{Base: 0, End: 400, Size: size(w.segments[0])}, {Base: 400, End: 401, Size: size(w.segments[1])}}
	w.records = w.contents()
	w.pass(Plan{Learn: w.bounds, Rewrite: w.bounds, TombstonesBefore: 1 << 40}, 1<<20)
	if left := w.contents(); len(left) != 401 {
		t.Errorf("%d records are left, want all 401", len(left))
	}
}

// A pass is due when it is worth it, and never touches the newest sealed segment.
func TestWhenAPassIsDue(t *testing.T) {
	three := []Segment{{0, 10, 100}, {10, 20, 100}, {20, 30, 100}}
	four := append(three, Segment{30, 40, 300})
	for name, c := range map[string]struct {
		past   Past
		sealed []Segment
		whole  bool
		want   bool
	}{
		"nothing sealed":           {sealed: nil},
		"one sealed":               {sealed: three[:1]},
		"new":                      {sealed: three[:2], want: true},
		"clean":                    {past: Past{Clean: 30}, sealed: three},
		"a third is new":           {past: Past{Clean: 20}, sealed: three},
		"half is new":              {past: Past{Clean: 30}, sealed: four, want: true},
		"keys did not fit":         {past: Past{Clean: 30, From: 5}, sealed: three, want: true},
		"a tombstone of age":       {past: Past{Clean: 30, Tombstone: 1}, sealed: three, whole: true, want: true},
		"a tombstone out of reach": {past: Past{Clean: 30, Tombstone: 1}, sealed: three},
		"a young tombstone":        {past: Past{Clean: 30, Tombstone: 900}, sealed: three, whole: true},
	} {
		plan, due := c.past.Next(c.sealed, c.whole, 200*time.Microsecond, 1000)
		if due != c.want {
			t.Errorf("%s: due %v", name, due)
		}
		if due && (len(plan.Learn) != len(c.sealed) || len(plan.Rewrite) != len(c.sealed)-1 || c.whole != (plan.TombstonesBefore == 800)) {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}
