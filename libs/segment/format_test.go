package segment_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/proto/batch"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]struct {
		base partition.Offset
		part segment.Part
	}{
		"00000000000000000000.log":  {0, segment.LogPart},
		"00000000000000000042.idx":  {42, segment.IndexPart},
		"18446744073709551615.snap": {1<<64 - 1, segment.SnapshotPart},
	} {
		base, part, ok := segment.ParseName(name)
		if !ok || base != want.base || part != want.part || segment.Name(base, part) != name {
			t.Errorf("%s is %d, %d, %v and back %s", name, base, part, ok, segment.Name(base, part))
		}
	}
	for _, name := range []string{
		"", ".log", "0.log", "00000000000000000000", "00000000000000000000.log.tmp", "+0000000000000000042.log", "0000000000000000004x.log",
		"18446744073709551616.log", "000000000000000000000.log", "00000000000000000042.LOG", "-0000000000000000042.log",
	} {
		if _, _, ok := segment.ParseName(name); ok {
			t.Errorf("%q is taken for a segment", name)
		}
	}
}

// sample is a segment of several batches, larger and smaller than the stride.
func sample(t testing.TB, n int) ([]byte, *segment.Index) {
	p := segmenttest.New(t)
	p.End, p.Chain, p.Epoch = 100, 5, 3
	var log []byte
	x := &segment.Index{Summary: segment.Summary{Base: 100, End: 100, Tag: segmenttest.Tag, Chain: 5}}
	for i := range n {
		var msg []byte
		if i%4 == 3 {
			msg = p.Control(i == 0)
		} else {
			msg = p.Data(1+i%3, 20000+i*7000, i == 0)
		}
		h := p.Header(msg)
		x.Add(&h, batch.NextChain(msg))
		log = append(log, msg...)
	}
	return log, x
}

func blocksOf(log []byte) []uint32 {
	var b segment.Blocks
	for len(log) > 0 { // in odd pieces
		n := min(len(log), 40_001)
		_, _ = b.Write(log[:n])
		log = log[n:]
	}
	return b.Sums()
}

func TestIndexFooterAndSnapshotRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 9, 20} {
		log, x := sample(t, n)
		encoded := x.AppendTo([]byte("before"))[len("before"):]
		parsed, err := segment.ParseIndex(encoded)
		if diff := cmp.Diff(x, parsed); err != nil || diff != "" {
			t.Fatalf("index of %d batches: %v (-want +got):\n%s", n, err, diff)
		}
		f := &segment.Footer{Index: x, SHA256: sha256.Sum256(log), Snapshot: []byte("state"), BlockCRCs: blocksOf(log)}
		msg, err := f.AppendTo([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		msg = msg[len("before"):]
		got, err := segment.ParseFooter(msg)
		if diff := cmp.Diff(f, got); err != nil || diff != "" {
			t.Fatalf("footer of %d batches: %v (-want +got):\n%s", n, err, diff)
		}
		if h, err := batch.ParseHeader(msg); err != nil || h.BaseOffset != uint64(x.End) || h.Chain != x.Chain || !h.IsControl() {
			t.Errorf("footer's header is %+v, %v", h, err)
		}
		for i := range got.BlockCRCs {
			block := bytes.Clone(log[i*segment.BlockBytes : min(len(log), (i+1)*segment.BlockBytes)])
			if err := got.CheckBlock(i, block); err != nil {
				t.Errorf("block %d: %v", i, err)
			}
			block[len(block)/2] ^= 4
			if err := got.CheckBlock(i, block); err == nil {
				t.Errorf("block %d: damage is not seen", i)
			}
			if err := got.CheckBlock(i, block[1:]); err == nil {
				t.Errorf("block %d: a short block is not seen", i)
			}
		}
		if err := got.CheckBlock(len(got.BlockCRCs), nil); !errors.Is(err, segment.ErrFooter) {
			t.Errorf("a block behind the end: %v", err)
		}
	}
	s := segment.Snapshot{Base: 3, End: 9, Size: 1000, SHA256: [32]byte{1, 2, 3}, State: []byte("state of the partition")}
	p, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := segment.ParseSnapshot(p)
	if diff := cmp.Diff(s, got); err != nil || diff != "" {
		t.Errorf("snapshot: %v (-want +got):\n%s", err, diff)
	}
	s.State = make([]byte, segment.MaxStateBytes+1)
	if _, err := s.AppendTo(nil); err == nil {
		t.Error("a state above the limit is encoded")
	}
}

// No flipped bit and no cut of an index, a footer or a snapshot is accepted.
func TestDamagedPartsAreRefused(t *testing.T) {
	log, x := sample(t, 6)
	f := &segment.Footer{Index: x, SHA256: sha256.Sum256(log), Snapshot: []byte("state"), BlockCRCs: blocksOf(log)}
	footer, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := segment.Snapshot{Base: 3, End: 9, Size: 1000, State: []byte("state of the partition")}
	snapshot, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		name  string
		p     []byte
		parse func(p []byte) error
		want  error
	}{
		{"index", x.AppendTo(nil), func(p []byte) error { _, err := segment.ParseIndex(p); return err }, segment.ErrIndex},
		{"footer", footer, func(p []byte) error { _, err := segment.ParseFooter(p); return err }, segment.ErrFooter},
		{"snapshot", snapshot, func(p []byte) error { _, err := segment.ParseSnapshot(p); return err }, segment.ErrSnapshot},
	} {
		if err := part.parse(part.p); err != nil {
			t.Fatalf("%s: %v", part.name, err)
		}
		for bit := range 8 * len(part.p) {
			part.p[bit/8] ^= 1 << (bit % 8)
			if err := part.parse(part.p); !errors.Is(err, part.want) {
				t.Fatalf("%s with bit %d flipped: %v", part.name, bit, err)
			}
			part.p[bit/8] ^= 1 << (bit % 8)
		}
		for n := range part.p {
			if err := part.parse(part.p[:n]); !errors.Is(err, part.want) {
				t.Fatalf("%s of %d bytes: %v", part.name, n, err)
			}
		}
	}
}

func TestIndexLookups(t *testing.T) {
	_, x := sample(t, 30)
	for i, e := range x.Entries {
		if got := x.At(e.Offset); got != e {
			t.Errorf("at offset %d: %+v", e.Offset, got)
		}
		if got := x.At(e.Offset + 1); i == len(x.Entries)-1 && got != e {
			t.Errorf("at offset %d: %+v", e.Offset+1, got)
		}
		if got := x.AtPosition(e.Position); got != e {
			t.Errorf("at position %d: %+v", e.Position, got)
		}
		if i > 0 {
			before := x.Entries[i-1]
			if got := x.At(e.Offset - 1); got != before {
				t.Errorf("at offset %d: %+v, want %+v", e.Offset-1, got, before)
			}
			if got := x.AtPosition(e.Position - 1); got != before {
				t.Errorf("at position %d: %+v, want %+v", e.Position-1, got, before)
			}
			if got := x.Before(e.AppendTime); got != before {
				t.Errorf("before %d: %+v, want %+v", e.AppendTime, got, before)
			}
		}
	}
	empty := &segment.Index{Summary: segment.Summary{Base: 7, End: 7}}
	want := segment.Entry{Offset: 7}
	if empty.At(9) != want || empty.AtPosition(5) != want || empty.Before(3) != want {
		t.Error("an empty index does not begin at its base")
	}
	if p, err := segment.ParseIndex(empty.AppendTo(nil)); err != nil || p.Base != 7 {
		t.Errorf("an empty index: %v", err)
	}
}

// Files of this version must open for ever: those of testdata/v1 are never written again.
func TestGoldenFiles(t *testing.T) {
	log, x := sample(t, 5)
	f := &segment.Footer{Index: x, SHA256: sha256.Sum256(log), Snapshot: []byte("state"), BlockCRCs: blocksOf(log)}
	footer, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := segment.Snapshot{Base: x.Base, End: x.End, Size: x.Size, SHA256: f.SHA256, State: []byte("state")}
	snapshot, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{
		segment.Name(x.Base, segment.IndexPart): x.AppendTo(nil), segment.Name(x.Base, segment.SnapshotPart): snapshot, "footer": footer,
	} {
		file := filepath.Join("testdata", "v1", name)
		golden, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && os.Getenv("SQ_GOLDEN") == "new" {
			err = os.WriteFile(file, p, 0o644)
			golden = p
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(golden, p) {
			t.Errorf("%s: today's bytes differ\n%x, golden\n%x", name, p, golden)
		}
	}
	if got, err := segment.ParseIndex(x.AppendTo(nil)); err != nil || fmt.Sprint(got) != fmt.Sprint(x) {
		t.Errorf("index: %+v, %v", got, err)
	}
}

func FuzzParts(f *testing.F) {
	log, x := sample(f, 5)
	footer := &segment.Footer{Index: x, SHA256: sha256.Sum256(log), Snapshot: []byte("state"), BlockCRCs: blocksOf(log)}
	encoded, err := footer.AppendTo(nil)
	if err != nil {
		f.Fatal(err)
	}
	s := segment.Snapshot{Base: x.Base, End: x.End, Size: x.Size, SHA256: footer.SHA256, State: []byte("state")}
	snapshot, err := s.AppendTo(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(x.AppendTo(nil))
	f.Add(encoded)
	f.Add(snapshot)
	f.Fuzz(func(t *testing.T, p []byte) {
		if x, err := segment.ParseIndex(p); err == nil && !bytes.Equal(x.AppendTo(nil), p) {
			t.Error("an index is not what it encodes to")
		}
		if s, err := segment.ParseSnapshot(p); err == nil {
			if again, err := s.AppendTo(nil); err != nil || !bytes.Equal(again, p) {
				t.Error("a snapshot is not what it encodes to")
			}
		}
		if f, err := segment.ParseFooter(p); err == nil && int64(len(f.BlockCRCs)) != (f.Index.Size+segment.BlockBytes-1)/segment.BlockBytes {
			t.Error("a footer without all blocks is accepted")
		}
	})
}
