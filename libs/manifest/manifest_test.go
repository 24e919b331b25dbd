package manifest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

func segmentOf(base, end partition.Offset) manifest.Segment {
	s := manifest.Segment{
		Base: base, End: end, Epoch: 3, Size: int64(end-base) * 100, ObjectSize: int64(end-base)*100 + 1000,
		FirstAppendTime: int64(base) * 1000, LastAppendTime: int64(end)*1000 - 1,
	}
	for i := range s.SHA256 {
		s.SHA256[i] = byte(i) + byte(base)
	}
	return s
}

func sample() *manifest.Manifest {
	id := partition.ID{Topic: partition.UUIDOf(0x0102030405060708, 0x090a0b0c0d0e0f10), Index: 7}
	foreign := segmentOf(0, 5)
	foreign.Key = "another cluster's key"
	return &manifest.Manifest{
		Cluster: partition.UUIDOf(1, 2), Sequence: 42, Created: 1893456000000000, Tierer: "tierer-1",
		Tables: []manifest.Table{
			{Partition: id, Epoch: 4, Version: 99, LogStart: 5, TierEnd: 30, Segments: []manifest.Segment{segmentOf(0, 10), segmentOf(10, 30)}},
			{Partition: partition.ID{Topic: id.Topic}, Epoch: 1, Version: 3},
			{Partition: partition.ID{Topic: id.Topic, Index: 1}, Version: 1, TierEnd: 5, Segments: []manifest.Segment{foreign}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := manifest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	again, err := got.Encode()
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("encoding it again gives other bytes, %v", err)
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "manifest-v1.golden")
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, data) {
		t.Errorf("format version 1 has changed:\nwant %x\ngot  %x", want, data)
	}
}

// TestEveryBitCounts flips each bit: none may go unnoticed.
func TestEveryBitCounts(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(data) * 8 {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := manifest.Parse(bad); !errors.Is(err, manifest.ErrManifest) {
			t.Fatalf("bit %d of byte %d flipped: %v", bit%8, bit/8, err)
		}
	}
	for size := range len(data) {
		if _, err := manifest.Parse(data[:size]); !errors.Is(err, manifest.ErrManifest) {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
	}
}

func TestTableCheck(t *testing.T) {
	seg := segmentOf
	for name, c := range map[string]struct {
		table manifest.Table
		want  string
	}{
		"empty":                   {manifest.Table{}, ""},
		"whole":                   {manifest.Table{TierEnd: 20, Segments: []manifest.Segment{seg(0, 10), seg(10, 20)}}, ""},
		"start is gone":           {manifest.Table{LogStart: 15, TierEnd: 20, Segments: []manifest.Segment{seg(10, 20)}}, ""},
		"hole below the start":    {manifest.Table{LogStart: 15, TierEnd: 20, Segments: []manifest.Segment{seg(0, 5), seg(10, 20)}}, ""},
		"all trimmed":             {manifest.Table{LogStart: 30, TierEnd: 20}, ""},
		"missing start":           {manifest.Table{LogStart: 5, TierEnd: 20, Segments: []manifest.Segment{seg(10, 20)}}, "[5, 10) is missing"},
		"hole":                    {manifest.Table{TierEnd: 30, Segments: []manifest.Segment{seg(0, 10), seg(20, 30)}}, "[10, 20) is missing"},
		"missing end":             {manifest.Table{TierEnd: 30, Segments: []manifest.Segment{seg(0, 10)}}, "[10, 30) is missing"},
		"nothing there":           {manifest.Table{TierEnd: 1}, "[0, 1) is missing"},
		"overlap":                 {manifest.Table{TierEnd: 20, Segments: []manifest.Segment{seg(0, 11), seg(10, 20)}}, "behind 11"},
		"beyond the end":          {manifest.Table{TierEnd: 9, Segments: []manifest.Segment{seg(0, 10)}}, "tier end 9"},
		"empty segment":           {manifest.Table{Segments: []manifest.Segment{seg(5, 5)}}, "[5, 5)"},
		"object without a footer": {manifest.Table{TierEnd: 1, Segments: []manifest.Segment{{End: 1, Size: 10, ObjectSize: 10}}}, "object of 10"},
	} {
		err := c.table.Check()
		if (err == nil) != (c.want == "") || (err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, manifest.ErrTable))) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTableFind(t *testing.T) {
	table := sample().Tables[0]
	for offset, want := range map[partition.Offset]partition.Offset{0: 0, 9: 0, 10: 10, 29: 10} {
		if got, ok := table.Find(offset); !ok || got.Base != want {
			t.Errorf("offset %d: segment %d, %v", offset, got.Base, ok)
		}
	}
	if got, ok := table.Find(30); ok {
		t.Errorf("the tier end is in %+v", got)
	}
	for micros, want := range map[int64]partition.Offset{-5: 0, 0: 0, 9_999: 0, 10_000: 10, 29_999: 10} {
		if got, ok := table.FindTime(micros); !ok || got.Base != want {
			t.Errorf("time %d: segment %d, %v", micros, got.Base, ok)
		}
	}
	if got, ok := table.FindTime(30_000); ok {
		t.Errorf("a later time is in %+v", got)
	}
	table.LogStart = 10
	if got, _ := table.FindTime(0); got.Base != 10 {
		t.Errorf("below the log start: segment %d", got.Base)
	}
}

func TestKeys(t *testing.T) {
	cluster, id, s := partition.UUIDOf(0, 1), partition.ID{Topic: partition.UUIDOf(0, 2), Index: 3}, segmentOf(10, 30)
	key := manifest.SegmentKey(cluster, id, s)
	want := "00000000-0000-0000-0000-000000000001/t/00000000-0000-0000-0000-000000000002/3/" +
		"00000000000000000010-00000000000000000030-0000000003-" + hex.EncodeToString(s.SHA256[:16]) + ".seg"
	if key != want {
		t.Fatalf("key %s, want %s", key, want)
	}
	if got := s.KeyIn(cluster, id); got != key {
		t.Errorf("it has the key %s", got)
	}
	if s.Key = "given"; s.KeyIn(cluster, id) != "given" {
		t.Error("a key that is given is not taken")
	}
	if !manifest.IsSegmentKey(cluster, id, key) {
		t.Error("it is not a segment's key")
	}
	other := id
	other.Index = 30
	if manifest.IsSegmentKey(cluster, other, key) || manifest.IsSegmentKey(partition.UUID{}, id, key) {
		t.Error("it is the key of another partition's segment too")
	}
	for _, bad := range []string{
		"", key + "x", strings.Replace(key, ".seg", "", 1), strings.Replace(key, "-0000000003-", "-3-", 1), strings.Replace(key, "3/0", "3/../0", 1),
		strings.ToUpper(key), strings.Replace(key, "00000000000000000010-", "", 1), manifest.PartitionPrefix(cluster, id),
	} {
		if manifest.IsSegmentKey(cluster, id, bad) {
			t.Errorf("%q is a segment's key", bad)
		}
	}
	if got, ok := manifest.ParseKey(cluster, manifest.Key(cluster, 1234)); !ok || got != 1234 {
		t.Errorf("sequence %d, %v", got, ok)
	}
	for _, bad := range []string{"", manifest.Prefix(cluster), manifest.Prefix(cluster) + "12", manifest.Key(partition.UUID{}, 1), manifest.Key(cluster, 1) + "0"} {
		if _, ok := manifest.ParseKey(cluster, bad); ok {
			t.Errorf("%q is a manifest's key", bad)
		}
	}
}

// TestRandomBytesUnderARightChecksum changes words and repairs the checksum: what is inside must still be refused or be a valid manifest.
func TestRandomBytesUnderARightChecksum(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		bad := bytes.Clone(data)
		for range 1 + random.IntN(4) {
			bad[8+random.IntN(len(bad)-8)] = byte(random.Uint32())
		}
		parseRepaired(t, bad)
	}
}

func FuzzParse(f *testing.F) {
	data, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = manifest.Parse(data)
		parseRepaired(t, data)
	})
}

func parseRepaired(t *testing.T, data []byte) {
	t.Helper()
	if len(data) < 48 {
		return
	}
	const at = 40
	binary.LittleEndian.PutUint32(data[at:], 0)
	binary.LittleEndian.PutUint32(data[at:], crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	m, err := manifest.Parse(data)
	if err != nil {
		if !errors.Is(err, manifest.ErrManifest) {
			t.Fatalf("error without its kind: %v", err)
		}
		return
	}
	for i := range m.Tables {
		if err := m.Tables[i].Check(); err != nil {
			t.Fatalf("an accepted manifest holds a bad table: %v", err)
		}
	}
}
