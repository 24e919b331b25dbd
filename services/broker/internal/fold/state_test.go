package fold

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// entry is a stamped batch.
type entry struct {
	header batch.Header
	msg    []byte
}

// logOf makes a log of random batches: producers, keys, control records, epochs, segments.
func logOf(t testing.TB, seed uint64, n int) []entry {
	rng := rand.New(rand.NewPCG(seed, 0))
	var log []entry
	s := batch.Stamps{Epoch: 1, AppendTime: 1_000_000}
	sequence := map[uint64]uint64{}
	var sealedEnd uint64
	for range n {
		var msg []byte
		switch x := rng.IntN(10); {
		case x < 7:
			pid := uint64(rng.IntN(4))
			o := batch.BuildOptions{ProducerID: pid, DedupeKey: batch.Key128{Lo: uint64(rng.IntN(2)) * rng.Uint64()}}
			if pid != 0 {
				o.BaseSequence = sequence[pid]
				sequence[pid]++
			}
			msg = build(t, o)
		case x == 7 && s.SegmentBase > sealedEnd:
			seal := sealed.Seal{Base: partition.Offset(sealedEnd), End: partition.Offset(s.SegmentBase), Size: 7}
			sealedEnd = s.SegmentBase
			msg = control(t, func(c batchcapnp.Control) error { return sealed.FillSealControl(c, seal) })
		case x == 8:
			to := s.BaseOffset / 2
			msg = control(t, func(c batchcapnp.Control) error { return sealed.FillTrim(c, partition.Offset(to)) })
		default:
			msg = control(t, func(c batchcapnp.Control) error { c.SetCut(); return nil })
		}
		if rng.IntN(10) == 0 {
			s.SegmentBase = s.BaseOffset
		}
		if rng.IntN(15) == 0 {
			s.Epoch++
		}
		batch.Stamp(msg, s)
		h, err := batch.ParseHeader(msg)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, entry{h, msg})
		s.BaseOffset, s.Chain, s.AppendTime = h.NextOffset(), batch.NextChain(msg), s.AppendTime+int64(rng.IntN(100_000_000))
	}
	return log
}

func build(t testing.TB, o batch.BuildOptions) []byte {
	var b batch.Builder
	b.Reset()
	if err := b.Add(batch.Record{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	msg, err := b.Build(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func control(t testing.TB, fill func(batchcapnp.Control) error) []byte {
	msg, err := batch.BuildControl(nil, fill)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// snapshots folds a log and gives the snapshots at its segment ends from an offset on.
func snapshots(t *testing.T, s *State, log []entry) map[partition.Offset][]byte {
	t.Helper()
	for i := range log {
		e := &log[i]
		if partition.Offset(e.header.BaseOffset) < s.End() {
			continue
		}
		if err := s.Add(&e.header, e.msg); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 || i == len(log)-1 { // commits come in groups
			if err := s.Commit(partition.Offset(e.header.NextOffset())); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := map[partition.Offset][]byte{}
	for _, b := range s.boundaries {
		out[b.end] = b.snapshot
	}
	return out
}

// Every replica, whatever snapshot it began from, writes the same bytes at every segment end (doc.go 1).
func TestSnapshotsDoNotDependOnTheStart(t *testing.T) {
	for seed := range uint64(10) {
		log := logOf(t, seed, 300)
		whole := snapshots(t, New(0, 0), log)
		if len(whole) < 5 {
			t.Fatalf("seed %d: only %d segments", seed, len(whole))
		}
		for end, data := range whole {
			s, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if s.End() != end {
				t.Fatalf("snapshot of %d says %d", end, s.End())
			}
			for at, again := range snapshots(t, s, log) {
				// At its own end a state has nothing to add: the first boundary is later.
				if !bytes.Equal(again, whole[at]) {
					t.Fatalf("seed %d: from the snapshot at %d the one at %d has other bytes", seed, end, at)
				}
			}
		}
	}
}

// What is cut is as if it had never been there.
func TestCut(t *testing.T) {
	log := logOf(t, 1, 60)
	a, b := New(0, 0), New(0, 0)
	for i := range log {
		e := &log[i]
		for _, s := range []*State{a, b} {
			if err := s.Add(&e.header, e.msg); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 4 {
			// b loses the last three and gets them again.
			b.Cut(partition.Offset(log[i-2].header.BaseOffset))
			for j := i - 2; j <= i; j++ {
				if err := b.Add(&log[j].header, log[j].msg); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []*State{a, b} {
				if err := s.Commit(partition.Offset(e.header.NextOffset())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	x, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if y, err := b.Encode(); err != nil || !bytes.Equal(x, y) {
		t.Errorf("after cuts the state has other bytes: %v", err)
	}
}

// A gap in what is committed is damage, not something to go on from.
func TestGap(t *testing.T) {
	log := logOf(t, 2, 10)
	s := New(0, 0)
	if err := s.Add(&log[3].header, log[3].msg); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(partition.Offset(log[3].header.NextOffset())); !fault.Is(err, fault.Corrupt) {
		t.Errorf("commit behind a gap: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	s := New(0, 0)
	for _, e := range logOf(f, 3, 100) {
		if err := s.Add(&e.header, e.msg); err != nil {
			f.Fatal(err)
		}
		if err := s.Commit(partition.Offset(e.header.NextOffset())); err != nil {
			f.Fatal(err)
		}
	}
	data, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			if !fault.Is(err, fault.Corrupt) && !fault.Is(err, fault.UnsupportedVersion) {
				t.Errorf("%v has kind %s", err, fault.KindOf(err))
			}
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if second, err := Decode(again); err != nil || second.End() != s.End() {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}

var golden = flag.Bool("golden", false, "write the golden file if it is missing")

// The bytes of a snapshot are frozen: a golden file is written once per format version and never again.
func TestGolden(t *testing.T) {
	s := New(0, 0)
	for _, e := range logOf(t, 42, 120) {
		if err := s.Add(&e.header, e.msg); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(partition.Offset(e.header.NextOffset())); err != nil {
			t.Fatal(err)
		}
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/snapshot-v1.bin"
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && *golden {
		err, want = os.WriteFile(file, data, 0o644), data
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("the snapshot of a fixed log has %d other bytes than %s", len(data), file)
	}
	got, err := Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if got.End() != s.End() || got.Producers.Sessions() != 3 || got.Tier.LogStart() != s.Tier.LogStart() || len(got.Tier.Seals()) != len(s.Tier.Seals()) {
		t.Errorf("golden snapshot: end %d, %d sessions, log start %d, %d seals", got.End(), got.Producers.Sessions(), got.Tier.LogStart(), len(got.Tier.Seals()))
	}
}

// What compaction has rewritten does not say what producers sent: it is refused, not folded wrong.
func TestRefusesWhatIsRewritten(t *testing.T) {
	msg := build(t, batch.BuildOptions{ProducerID: 3})
	batch.Widen(msg, 5)
	batch.Stamp(msg, batch.Stamps{Epoch: 1})
	h, err := batch.ParseHeader(msg)
	if err != nil {
		t.Fatal(err)
	}
	if err := New(0, 0).Add(&h, msg); !fault.Is(err, fault.Corrupt) {
		t.Errorf("add a rewritten batch: %v", err)
	}
}
