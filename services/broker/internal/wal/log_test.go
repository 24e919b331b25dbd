package wal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// openDisk opens a log on the machine's own file system and gives its directory.
func openDisk(t testing.TB) (*Log, string) {
	t.Helper()
	root := t.TempDir()
	fsys, err := osfs.New(root)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := mustOpen(t, fsys, Evidence{})
	return l, filepath.Join(root, testDir)
}

// A closed segment is a sequence of standard Cap'n Proto messages: the stock tool reads it.
func TestCapnpDecodesAClosedSegment(t *testing.T) {
	tool, err := exec.LookPath("capnp")
	if err != nil {
		t.Skip("SKIPPED: the capnp program is missing: apt-get install capnproto")
	}
	std, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "capnproto.org/go/capnp/v3").Output()
	if err != nil {
		t.Fatalf("find go.capnp: %v", err)
	}
	l, dir := openDisk(t)
	p := segmenttest.New(t)
	mustAppend(t, l, p.Control(true), p.Data(3, 10, false), p.Data(2, 70000, false))
	mustAppend(t, l, p.Data(1, 1, true)) // closes the first
	mustSync(t, l)
	file, err := os.Open(filepath.Join(dir, segment.Name(0, segment.LogPart)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	schema := filepath.Join("..", "..", "..", "..", "proto", "capnp", "batch.capnp")
	imports := "-I" + filepath.Join(strings.TrimSpace(string(std)), "std")
	cmd := exec.CommandContext(t.Context(), tool, "decode", "--short", imports, schema, "Batch")
	cmd.Stdin = file
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("capnp decode: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "trimTo") || !strings.Contains(lines[1], "recordCount = 3") ||
		!strings.Contains(lines[2], "baseOffset = 4") {
		t.Errorf("capnp decode prints %d lines:\n%.500s", len(lines), out)
	}
}

func TestReadsAreWholeBatchesWithinLimits(t *testing.T) {
	l, _ := mustOpen(t, newMem(), Evidence{})
	p := segmenttest.New(t)
	var all [][]byte
	var bases []partition.Offset
	for i := range 40 {
		bases = append(bases, p.End)
		all = append(all, p.Data(2, 5000, i%15 == 0))
		mustAppend(t, l, all[i])
	}
	size := len(all[0])
	for _, test := range []struct {
		name        string
		from, limit partition.Offset
		max         int
		first, last int // batches [first, last)
	}{
		{"from inside a batch", bases[3] + 1, p.End, size, 3, 4},
		{"one that is larger than asked for", bases[3], p.End, 10, 3, 4},
		{"as many as fit", bases[16], p.End, 5*size + 7, 16, 21},
		{"exactly as many", bases[16], p.End, 5 * size, 16, 21},
		{"to the limit", bases[16], bases[19], 1 << 20, 16, 19},
		{"a limit inside a batch", bases[16], bases[19] + 1, 1 << 20, 16, 19},
		{"not beyond the file", bases[14], p.End, 1 << 20, 14, 15},
		{"nothing at the limit", bases[16], bases[16], 1 << 20, 16, 16},
		{"nothing that ends below the limit", bases[16], bases[16] + 1, 1 << 20, 16, 16},
		{"the rest", bases[31], p.End + 100, 1 << 20, 31, 40},
	} {
		c, err := l.Read(test.from, test.limit, test.max)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got bytes.Buffer
		if _, err := c.WriteTo(&got); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		next := test.from
		if test.last > test.first {
			next = p.End
			if test.last < len(bases) {
				next = bases[test.last]
			}
		}
		if !bytes.Equal(got.Bytes(), bytes.Join(all[test.first:test.last], nil)) || c.NextOffset != next || c.Len() != got.Len() {
			t.Errorf("%s: %d bytes to %d, want batches [%d, %d) to %d", test.name, got.Len(), c.NextOffset, test.first, test.last, next)
		}
		if again, err := io.ReadAll(io.NewSectionReader(c, 0, int64(c.Len()))); err != nil || !bytes.Equal(again, got.Bytes()) {
			t.Errorf("%s: ReadAt gives %d bytes: %v", test.name, len(again), err)
		}
		c.Close()
		c.Close()
	}
	_, err := l.Read(p.End+1, p.End+5, 10)
	wantKind(t, "read above the end", err, fault.OffsetOutOfRange)
	_, err = l.Read(bases[5], bases[4], 10)
	wantKind(t, "read above the limit", err, fault.OffsetOutOfRange)
}

func TestOffsetsByAppendTime(t *testing.T) {
	l, _ := mustOpen(t, newMem(), Evidence{})
	p := segmenttest.New(t)
	var bases []partition.Offset
	var times []int64
	for i := range 60 {
		bases = append(bases, p.End)
		if i%3 != 0 {
			p.AppendTime -= 10 // as the one before
		}
		mustAppend(t, l, p.Data(2, 9000, i%20 == 0))
		times = append(times, p.AppendTime)
	}
	for i, at := range times {
		first := i - i%3
		for _, test := range []struct {
			time int64
			want partition.Offset
		}{{at, bases[first]}, {at - 1, bases[first]}} {
			if got, err := l.OffsetAt(test.time, p.End); err != nil || got != test.want {
				t.Errorf("offset at %d is %d, want %d: %v", test.time, got, test.want, err)
			}
		}
	}
	for _, test := range []struct {
		time  int64
		limit partition.Offset
		want  partition.Offset
	}{{times[59] + 1, p.End, p.End}, {times[59] + 1, p.End + 9, p.End}, {times[50], bases[10], bases[10]}, {0, p.End, 0}} {
		if got, err := l.OffsetAt(test.time, test.limit); err != nil || got != test.want {
			t.Errorf("offset at %d below %d is %d, want %d: %v", test.time, test.limit, got, test.want, err)
		}
	}
}

// A log's life in the tiered case: cut, sealed, read by a tierer, dropped; and what is left starts again from the snapshot.
func TestSealAndDrop(t *testing.T) {
	inner := newMem()
	l, _ := mustOpen(t, inner, Evidence{})
	p := segmenttest.New(t)
	var segments [][]byte
	var bases []partition.Offset
	for range 5 {
		bases = append(bases, p.End)
		group := [][]byte{p.Data(9, 30000, true), p.Control(false), p.Data(9, 30000, false)}
		mustAppend(t, l, group...)
		segments = append(segments, bytes.Join(group, nil))
	}
	_, _, err := l.Digest(bases[4])
	wantKind(t, "digest an open segment", err, fault.Conflict)
	_, _, err = l.Digest(3)
	wantKind(t, "digest no segment", err, fault.NotFound)
	wantKind(t, "seal out of order", l.MarkSealed(bases[1], [32]byte{}, nil), fault.Conflict)
	wantKind(t, "seal an open segment", l.MarkSealed(bases[4], [32]byte{}, nil), fault.Conflict)
	_, err = l.ReadSealed(bases[0], 0, 10)
	wantKind(t, "read a closed segment", err, fault.Conflict)
	for i, base := range bases[:4] {
		size, sum, err := l.Digest(base)
		if err != nil || sum != sha256.Sum256(segments[i]) || size != int64(len(segments[i])) {
			t.Fatalf("digest of segment %d: %d bytes, %x, %v", base, size, sum, err)
		}
		if err := l.MarkSealed(base, sum, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, "cut a sealed segment", l.Truncate(bases[1]), fault.Conflict)

	var got bytes.Buffer
	for position := int64(0); position < int64(len(segments[1])); {
		c, err := l.ReadSealed(bases[1], position, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.WriteTo(&got)
		if err := errors.Join(err, c.Close()); err != nil || n == 0 {
			t.Fatalf("%d bytes: %v", n, err)
		}
		position += n
	}
	if !bytes.Equal(got.Bytes(), segments[1]) {
		t.Error("the sealed bytes differ")
	}
	rawIndex, state, err := l.SealedParts(bases[1])
	if err != nil || !bytes.Equal(state, []byte{1}) {
		t.Fatalf("parts: state %v, %v", state, err)
	}
	if x, err := segment.ParseIndex(rawIndex); err != nil || x.Base != bases[1] || x.End != bases[2] || len(x.Entries) < 2 {
		t.Errorf("index is %+v: %v", x, err)
	}

	held, err := l.Read(bases[0], p.End, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DropBefore(bases[3] + 1); err != nil {
		t.Fatal(err)
	}
	if l.Start() != bases[3] {
		t.Errorf("start is %d, want %d", l.Start(), bases[3])
	}
	_, err = l.Read(bases[3]-1, p.End, 100)
	if wantKind(t, "read below the start", err, fault.OffsetTiered); !errors.Is(err, ErrBelowStart) {
		t.Errorf("read below the start: %v", err)
	}
	var kept bytes.Buffer
	if _, err := held.WriteTo(&kept); err != nil || !bytes.HasPrefix(segments[0], kept.Bytes()) || kept.Len() == 0 {
		t.Errorf("what was being read is gone with its file: %d bytes, %v", kept.Len(), err)
	}
	held.Close()

	if err := l.DropBefore(bases[4]); err != nil || l.Start() != bases[3] {
		t.Fatalf("start is %d, want %d while nothing of the segment behind is durable: %v", l.Start(), bases[3], err)
	}
	mustSync(t, l)
	if err := l.DropBefore(bases[4]); err != nil {
		t.Fatal(err)
	}
	again, r := mustOpen(t, inner.CrashNone(), Evidence{})
	if r.Start != bases[4] || r.SnapshotEnd != bases[4] || !bytes.Equal(r.Snapshot, []byte{3}) || r.Class != segment.Clean {
		t.Errorf("after dropping everything sealed: %+v", r)
	}
	if infos := again.Segments(); len(infos) != 1 || infos[0].State != StateOpen {
		t.Errorf("segments are %+v", infos)
	}
}

// What cannot continue the log is refused whole.
func TestAppendRefusesWhatDoesNotContinue(t *testing.T) {
	l, _ := mustOpen(t, newMem(), Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(2, 10, true))
	for name, spoil := range map[string]func(q *segmenttest.Leader){
		"a gap":              func(q *segmenttest.Leader) { q.End++ },
		"an offset again":    func(q *segmenttest.Leader) { q.End-- },
		"another chain":      func(q *segmenttest.Leader) { q.Chain++ },
		"an older epoch":     func(q *segmenttest.Leader) { q.Epoch = 0 },
		"a time before":      func(q *segmenttest.Leader) { q.AppendTime -= 11 },
		"an unknown segment": func(q *segmenttest.Leader) { q.Base = 1 },
	} {
		q := *p
		good := q.Data(1, 10, false)
		spoil(&q)
		wantKind(t, name, l.Append([][]byte{good, q.Data(1, 10, false)}), fault.Internal)
	}
	if l.End() != p.End {
		t.Errorf("end is %d, want %d", l.End(), p.End)
	}
	mustAppend(t, l, p.Data(1, 10, false))
	l.Close()
	wantKind(t, "append after Close", l.Append([][]byte{p.Control(false)}), fault.Unavailable)
}

// One append and one sync are one write and one sync of the file, and nothing else.
func TestAppendAndSyncCostTwoCalls(t *testing.T) {
	faulty := newFaulty(newMem())
	l, _ := mustOpen(t, faulty, Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 100<<10, true), p.Data(1, 100<<10, false))
	mustSync(t, l)
	mustAppend(t, l, p.Data(1, 100<<10, false)) // reserves disk for what follows
	mustSync(t, l)
	var calls []faultfs.Op
	faulty.Observe(func(c faultfs.Call) { calls = append(calls, c.Op) })
	mustAppend(t, l, p.Data(1, 30<<10, false), p.Data(1, 30<<10, false), p.Control(false))
	mustSync(t, l)
	mustSync(t, l)
	if len(calls) != 2 || calls[0] != faultfs.Write || calls[1] != faultfs.Sync {
		t.Errorf("calls are %v", calls)
	}
}

// Many logs share a bound on open files; only clean ones are closed for it.
func TestOpenFilesAreBounded(t *testing.T) {
	fsys := newMem()
	files := segment.NewFiles(fsys, 4)
	var logs []*Log
	for i := range 30 {
		l, _, err := Open(t.Context(), Config{FS: fsys, Dir: "p/" + string(rune('a'+i)), Tag: testTag, Files: files}, Evidence{})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, segmenttest.New(t).Data(1, 100, true))
		logs = append(logs, l)
	}
	if files.Open() != 30 {
		t.Errorf("%d files are open, 30 are not synced", files.Open())
	}
	for _, l := range logs {
		mustSync(t, l)
	}
	if files.Open() > 4 {
		t.Errorf("%d files are open, all are synced", files.Open())
	}
	for _, l := range logs {
		if got, err := readAll(l, 0, 1, 1000); err != nil || len(got) == 0 {
			t.Errorf("read: %d bytes, %v", len(got), err)
		}
	}
}

// A log that starts elsewhere, as one installed behind what is tiered does.
func TestOriginOfALog(t *testing.T) {
	fsys := newMem()
	p := segmenttest.New(t)
	p.End, p.Chain = 500, 77
	cfg := Config{FS: fsys, Dir: testDir, Tag: testTag, Origin: Origin{Offset: 500, Chain: 77}}
	l, r, err := Open(t.Context(), cfg, Evidence{})
	if err != nil || r.Start != 500 || r.End != 500 || r.Chain != 77 || r.SegmentBase != 500 {
		t.Fatalf("%+v, %v", r, err)
	}
	mustAppend(t, l, p.Data(2, 10, true), p.Data(1, 10, false))
	mustSync(t, l)
	if err := l.Truncate(500); err != nil || l.End() != 500 || l.Start() != 500 {
		t.Fatalf("[%d, %d), %v", l.Start(), l.End(), err)
	}
	follow(p, l.Tail())
	mustAppend(t, l, p.Data(2, 10, true))
	mustSync(t, l)
	if _, r, err = Open(t.Context(), cfg, Evidence{}); err != nil || r.Start != 500 || r.End != 502 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A log that contradicts its mark is not the log that was marked.
func TestMarkOfAnotherLog(t *testing.T) {
	fsys := newMem()
	l, _ := mustOpen(t, fsys, Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(2, 10, true), p.Data(1, 10, false))
	mustSync(t, l)
	mark := l.Mark()
	for name, spoil := range map[string]func(m *segment.Mark){
		"chain": func(m *segment.Mark) { m.Chain++ }, "position": func(m *segment.Mark) { m.Position -= 8 },
		"offset": func(m *segment.Mark) { m.Offset = 1 },
	} {
		bad := mark
		spoil(&bad)
		_, _, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag}, Evidence{Mark: bad})
		wantKind(t, name, err, fault.Corrupt)
	}
	if _, r := mustOpen(t, fsys, Evidence{Mark: mark}); r.End != p.End || r.Class != segment.Clean {
		t.Errorf("with the right mark: %+v", r)
	}
}

// A high watermark above the end says that bytes are missing, or that it became durable before them.
func TestHighWatermarkAboveTheEnd(t *testing.T) {
	fsys := newMem()
	l, _ := mustOpen(t, fsys, Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(2, 10, true))
	mustSync(t, l)
	for range 2 {
		if _, r := mustOpen(t, fsys.CrashAll(), Evidence{HW: 5}); r.Class != segment.Suspect || r.End != 2 {
			t.Errorf("%+v", r)
		}
	}
	if _, r := mustOpen(t, fsys.CrashAll(), Evidence{HW: 5, Mark: segment.Mark{Offset: 7}}); r.Class != segment.Corrupt || r.End != 7 ||
		len(r.Faults) != 1 || r.Faults[0].From != 2 || r.Faults[0].To != 7 {
		t.Errorf("%+v", r)
	}
}

// The body of a fetch goes from the page cache to a TCP connection.
func TestChunkOverTCP(t *testing.T) {
	l, _ := openDisk(t)
	p := segmenttest.New(t)
	msg := p.Data(10, 50_000, true)
	mustAppend(t, l, msg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan []byte)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(got)
			return
		}
		p, _ := io.ReadAll(conn)
		conn.Close()
		got <- p
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Read(0, p.End, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.WriteTo(conn); err != nil || n != int64(len(msg)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	c.Close()
	conn.Close()
	if !bytes.Equal(<-got, msg) {
		t.Error("other bytes arrive")
	}
}
