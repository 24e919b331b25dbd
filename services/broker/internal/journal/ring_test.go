package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

func entry(replica byte, at, length int64) Redo {
	return Redo{Replica: replicaID(replica), Redo: segment.Redo{
		Generation: 1, Base: 10, Offset: partition.Offset(10 + at), End: partition.Offset(11 + at), Position: at, Length: length, Chain: 5, Next: 6,
	}}
}

func pattern(i int) func(int, []byte) error {
	return func(_ int, p []byte) error {
		for k := range p {
			p[k] = byte(i + k)
		}
		return nil
	}
}

func mustRing(t *testing.T, j *Journal, size int64) *Ring {
	t.Helper()
	r, err := j.BeginRing(size)
	if err != nil {
		t.Fatalf("BeginRing: %v", err)
	}
	return r
}

// What is live is found again, whole and in order, however often the ring has gone round, and nothing else.
func TestRingGoesRound(t *testing.T) {
	fsys := memfs.New()
	j, _ := mustOpen(t, fsys)
	r := mustRing(t, j, MinRingBytes)
	rng := rand.New(rand.NewPCG(1, 1))
	type written struct {
		sequence uint64
		replica  byte
		length   int64
	}
	var live []written
	full := 0
	for i := range 400 {
		length := int64(8 * (1 + rng.IntN(2500)))
		fits := r.Room() >= groupLength(1, r.Repeats(), length)
		sequence, err := r.Write([]Redo{entry(byte(i), int64(i), length)}, pattern(i))
		if fits != (err == nil) {
			t.Fatalf("group %d of %d bytes: room is %d, Write gives %v", i, length, r.Room(), err)
		}
		if errors.Is(err, ErrRingFull) {
			full++
			keep := rng.IntN(len(live))
			live = live[len(live)-keep:]
			tail := r.Next()
			if keep > 0 {
				tail = live[0].sequence
			}
			if err := r.Free(tail); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, written{sequence, byte(i), length})
		if i%7 != 0 {
			continue
		}
		again, _, err := Open(Config{FS: fsys.CrashNone(), Dir: testDir})
		if err != nil {
			t.Fatalf("after group %d: %v", i, err)
		}
		var got []written
		for _, e := range again.Redo() {
			got = append(got, written{e.Group, e.Replica[15], e.Length})
			p, want := make([]byte, e.Length), make([]byte, e.Length)
			_ = pattern(int(e.Position))(0, want)
			if err := again.ReadRedo(e, p); err != nil || !bytes.Equal(p, want) {
				t.Fatalf("after group %d: bytes of group %d differ: %v", i, e.Group, err)
			}
		}
		if diff := cmp.Diff(live, got, cmp.AllowUnexported(written{})); diff != "" {
			t.Fatalf("after group %d (-want +got):\n%s", i, diff)
		}
		again.closeRing()
	}
	if full < 10 {
		t.Errorf("the ring was full %d times", full)
	}
}

// A new use of the ring takes nothing of the one before for its own, and a start after a clean stop does not read it.
func TestRingUses(t *testing.T) {
	fsys := memfs.New()
	j, _ := mustOpen(t, fsys)
	r := mustRing(t, j, MinRingBytes)
	if _, err := r.Write([]Redo{entry(1, 0, 800)}, pattern(1)); err != nil {
		t.Fatal(err)
	}
	second, _ := mustOpen(t, fsys)
	if n := len(second.Redo()); n != 1 {
		t.Fatalf("%d entries after a crash", n)
	}
	if _, err := second.BeginRing(MinRingBytes); !fault.Is(err, fault.Internal) {
		t.Errorf("BeginRing before Settle: %v", err)
	}
	if err := second.Settle(); err != nil {
		t.Fatal(err)
	}
	again := mustRing(t, second, MinRingBytes)
	if again.id == r.id || again.Next() <= 1 {
		t.Errorf("the second use has id %d and begins at group %d", again.id, again.Next())
	}
	third, _ := mustOpen(t, fsys.CrashNone())
	if n := len(third.Redo()); third.Redo() == nil || n != 0 {
		t.Errorf("%d entries of an earlier use are taken for own", n)
	}
	if err := again.Rest(); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashNone()
	if err := crashed.Remove(testDir + "/" + ringName); err != nil {
		t.Fatal(err)
	}
	if fourth, _ := mustOpen(t, crashed); fourth.Redo() != nil {
		t.Error("a ring at rest is read")
	}
}

// A ring that was in use and is gone is damage.
func TestRingIsMissed(t *testing.T) {
	fsys := memfs.New()
	j, _ := mustOpen(t, fsys)
	mustRing(t, j, MinRingBytes)
	if err := fsys.Remove(testDir + "/" + ringName); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(Config{FS: fsys, Dir: testDir}); !fault.Is(err, fault.Corrupt) {
		t.Errorf("Open without the ring: %v", err)
	}
	if _, err := j.BeginRing(MinRingBytes - 1<<13); !fault.Is(err, fault.Invalid) {
		t.Errorf("a ring that is too small: %v", err)
	}
}

// Another size is another file, made only when nothing in the old one is needed.
func TestRingSize(t *testing.T) {
	fsys := memfs.New()
	j, _ := mustOpen(t, fsys)
	mustRing(t, j, MinRingBytes)
	second, _ := mustOpen(t, fsys)
	if err := second.Settle(); err != nil {
		t.Fatal(err)
	}
	mustRing(t, second, 2*MinRingBytes)
	if info, err := fsys.Stat(testDir + "/" + ringName); err != nil || info.Size != 2*MinRingBytes {
		t.Errorf("the ring has %d bytes, %v", info.Size, err)
	}
}

func testGroup() ([]byte, group) {
	g := group{sequence: 7, own: []Redo{entry(1, 0, 16), entry(2, 3, 8)}, previous: []Redo{entry(3, 9, 24)}, previousData: 4096 + 136}
	g.length = groupLength(2, 1, 24)
	p := make([]byte, g.length)
	at := tablesBytes(2, 1)
	for i := range g.own {
		data := p[at : at+g.own[i].Length]
		_ = pattern(i)(0, data)
		g.own[i].sum, g.own[i].at, g.own[i].Group = sumOf(data), 8192+at, 7
		at += g.own[i].Length
	}
	g.previous[0].sum, g.previous[0].at, g.previous[0].Group = 0xabcdef01, 4096+136, 6
	g.put(p, 99)
	return p, g
}

// The bytes are frozen: a change here is a new format version.
func TestGoldenGroup(t *testing.T) {
	p, g := testGroup()
	got, err := parseGroup(p, 99, 8192, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g, got, cmp.AllowUnexported(group{}, Redo{})); diff != "" {
		t.Errorf("group changes when it is read (-want +got):\n%s", diff)
	}
	if _, err := parseGroup(p, 98, 8192, 1<<20); err == nil {
		t.Error("a group of another use is taken")
	}
	want := "53514731a4cbaf8a07000000000000000010000000000000020000000100000088100000000000000000000000000000" + // magic, checksum, sequence; length, entries; data of the group before
		"0000000000000000000000000000000101000000000000000a000000000000000a000000000000000b00000000000000" + // replica, generation, base; offset, end
		"0000000000000000050000000000000006000000000000001000000000000000eb08c9d900000000" + // position, chain, next, length, checksum
		"0000000000000000000000000000000201000000000000000a000000000000000d000000000000000e00000000000000" + // replica, generation, base; offset, end
		"0300000000000000050000000000000006000000000000000800000000000000811f894600000000" + // position, chain, next, length, checksum
		"0000000000000000000000000000000301000000000000000a0000000000000013000000000000001400000000000000" + // replica, generation, base; offset, end of the group before
		"090000000000000005000000000000000600000000000000180000000000000001efcdab00000000" + // position, chain, next, length, checksum
		"000102030405060708090a0b0c0d0e0f0102030405060708" // bytes
	if bytes := fmt.Sprintf("%x", p[:tablesBytes(2, 1)+24]); bytes != want {
		t.Errorf("bytes are\n%s, want\n%s", bytes, want)
	}
	if record := fmt.Sprintf("%x", ringRecord(RingState{ID: 3, Tail: 4, Used: true}).payload); record != "030000000000000004000000000000000100000000000000" {
		t.Errorf("ring record is %s", record)
	}
}

func FuzzParseGroup(f *testing.F) {
	p, _ := testGroup()
	f.Add(p, uint64(99), int64(8192))
	f.Add(p[:200], uint64(99), int64(0))
	f.Fuzz(func(t *testing.T, p []byte, id uint64, position int64) {
		const size = 1 << 20
		if position < 0 || position >= size {
			return
		}
		// Most inputs would die of their checksum: mend it.
		if n, err := groupHeaderSize(p); err == nil && n <= int64(len(p)) {
			p = bytes.Clone(p)
			sum := checksum(id, p[8:n])
			p[4], p[5], p[6], p[7] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		g, err := parseGroup(p, id, position, size)
		if err != nil {
			return
		}
		for _, e := range append(g.own[:len(g.own):len(g.own)], g.previous...) {
			if e.at < 0 || e.Length <= 0 || e.at+e.Length > size {
				t.Fatalf("entry outside the ring: %+v", e)
			}
		}
		again := make([]byte, g.length)
		g.put(again, id)
		if n := tablesBytes(len(g.own), len(g.previous)); !bytes.Equal(again[:n], p[:n]) {
			t.Errorf("header is\n%x, written again\n%x", p[:n], again[:n])
		}
	})
}

// A whole ring of anything is read without harm.
func FuzzRing(f *testing.F) {
	p, _ := testGroup()
	f.Add(append(make([]byte, 8192), p...), uint64(99), uint64(7))
	f.Fuzz(func(t *testing.T, p []byte, id, tail uint64) {
		fsys := memfs.New()
		file, err := fsys.Open(ringName, vfs.Write|vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p = append(p, make([]byte, MinRingBytes)...)[:MinRingBytes]
		if _, err := file.WriteAt(p, 0); err != nil {
			t.Fatal(err)
		}
		redo, old, err := openRing(fsys, ".", RingState{ID: id, Tail: tail, Used: true})
		if err != nil {
			if !fault.Is(err, fault.Corrupt) {
				t.Errorf("openRing: %v", err)
			}
			return
		}
		defer old.Close()
		for _, e := range redo {
			if err := readRedo(old, e, nil); (err != nil) != e.Lost {
				t.Errorf("entry %+v: %v", e, err)
			}
		}
	})
}
