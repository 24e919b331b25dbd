package replica

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// spoil changes the file of the log that is on the disk, from the first place where needle stands.
func (g *rig) spoil(base partition.Offset, needle string, change func(data []byte, at int)) {
	g.t.Helper()
	name := logDir + "/" + segment.Name(base, segment.LogPart)
	file, err := g.mem.Open(name, vfs.Write)
	if err != nil {
		g.t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		g.t.Fatal(err)
	}
	data := make([]byte, size)
	if _, err := file.ReadAt(data, 0); err != nil {
		g.t.Fatal(err)
	}
	at := bytes.Index(data, []byte(needle))
	if at < 0 {
		g.t.Fatalf("%q is not in %s", needle, name)
	}
	change(data, at)
	if _, err := file.WriteAt(data, 0); err != nil {
		g.t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		g.t.Fatal(err)
	}
}

func flip(data []byte, at int) { data[at] ^= 1 }

// blank zeroes the header of the batch that a place in a body belongs to.
func blank(data []byte, at int) {
	for from := at &^ 7; from >= 0; from -= 8 {
		if h, err := batch.ParseHeader(data[from:]); err == nil && from+h.Size > at {
			clear(data[from : from+batch.HeaderBytes])
			return
		}
	}
	panic("no header")
}

// stop ends a life in good order, and with it its mark is at the end of the log.
func (g *rig) stop() {
	g.t.Helper()
	evidence, _ := g.r.Evidence()
	g.r.Close()
	g.r = nil
	if err := g.commit.Close(); err != nil {
		g.t.Fatal(err)
	}
	g.workers.Close()
	if err := g.journal.Put(evidence...); err != nil {
		g.t.Fatal(err)
	}
	if err := g.journal.Close(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) fetchError(at partition.Offset) error {
	g.t.Helper()
	got, err := g.r.Fetch(context.Background(), Fetch{Offset: at})
	if err == nil {
		got.Chunk.Close()
		g.t.Fatalf("fetch at %d gives up to %d", at, got.NextOffset)
	}
	return err
}

// readable gives what can be read up to an offset, over what is damaged.
func (g *rig) readable(end partition.Offset) (values []string, damaged [][2]partition.Offset) {
	g.t.Helper()
	for from := partition.Offset(0); from < end; {
		got, err := g.r.Fetch(context.Background(), Fetch{Offset: from})
		if err != nil {
			e, ok := err.(*fault.Error) //nolint:errorlint // the outermost.
			if !ok || e.Kind != fault.Corrupt || partition.Offset(e.Offset) <= from {
				g.t.Fatalf("fetch at %d: %v", from, err)
			}
			damaged = append(damaged, [2]partition.Offset{from, partition.Offset(e.Offset)})
			from = partition.Offset(e.Offset)
			continue
		}
		var body bytes.Buffer
		known := g.r.State().Damaged
		_, err = got.Chunk.WriteTo(&body)
		got.Chunk.Close()
		if err != nil { // the connection ends here, and its owner comes again
			g.await(func(s State) bool { return s.Damaged > known })
			continue
		}
		for msg, err := range batch.Each(body.Bytes()) {
			if err != nil {
				g.t.Fatal(err)
			}
			var reader batch.Reader
			if h, err := batch.ParseHeader(msg); err != nil || h.IsControl() {
				continue
			}
			if err := reader.Reset(msg); err != nil {
				g.t.Fatal(err)
			}
			var r batch.Record
			for i := range reader.Len() {
				reader.Record(i, &r)
				values = append(values, string(r.Value))
			}
		}
		from = got.NextOffset
	}
	return values, damaged
}

func (g *rig) keptFaults() (out [][2]partition.Offset) {
	kept, _ := g.journal.Replica(theReplica)
	for _, bad := range kept.Faults {
		out = append(out, [2]partition.Offset{bad.From, bad.To})
	}
	return out
}

// A record that has rotted is told as such and nothing else is lost by it: the replica opens, serves what is before and behind, and as the only
// member goes on. The range is remembered by every later life.
func TestRottenRecord(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(map[bool]string{false: "open segment", true: "sealed segment"}[sealed], func(t *testing.T) {
			g := newRig(t).start()
			for _, v := range []string{"first-value", "second-value", "third-value"} {
				g.mustPublish(v)
			}
			if sealed {
				g.seal()
			}
			g.stop()
			g.spoil(0, "second-value", flip)
			want := [][2]partition.Offset{{2, 3}}
			for life := range 3 {
				g.start()
				if sealed && life == 0 {
					// Nothing reads a sealed segment at start: a reader finds it, or the scrubber, which asks for this.
					g.r.Examine(2)
				}
				values, damaged := g.readable(g.r.State().HighWatermark)
				if diff := cmp.Diff(want, damaged); diff != "" {
					t.Fatalf("life %d: damaged (-want +got):\n%s", life, diff)
				}
				if diff := cmp.Diff([]string{"first-value", "third-value"}, values[:2]); diff != "" {
					t.Errorf("life %d: values (-want +got):\n%s", life, diff)
				}
				if diff := cmp.Diff(want, g.keptFaults()); diff != "" {
					t.Errorf("life %d: the journal's faults (-want +got):\n%s", life, diff)
				}
				err := g.fetchError(2)
				if file := segment.Name(0, segment.LogPart); !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "[2, 3)") {
					t.Errorf("the error names neither file nor range: %v", err)
				}
				g.mustPublish("more")
				g.stop()
			}
		})
	}
}

// Where a header is gone, what follows cannot be folded: the replica gives what can be read and does not lead, in every later life.
func TestRottenHeader(t *testing.T) {
	g := newRig(t).start()
	for _, v := range []string{"first-value", "second-value", "third-value"} {
		g.mustPublish(v)
	}
	g.stop()
	g.spoil(0, "second-value", blank)
	for life := range 2 {
		if err := g.open(); err != nil {
			t.Fatal(err)
		}
		g.r.Assign(g.register.nominate(g.incarnation))
		g.await(func(State) bool { return g.r.Unfit() != "" })
		values, damaged := g.readable(4)
		if diff := cmp.Diff([][2]partition.Offset{{2, 3}}, damaged); diff != "" {
			t.Errorf("life %d: damaged (-want +got):\n%s", life, diff)
		}
		if diff := cmp.Diff([]string{"first-value", "third-value"}, values); diff != "" {
			t.Errorf("life %d: values (-want +got):\n%s", life, diff)
		}
		if _, err := g.publish("more"); !fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "[2, 3)") {
			t.Errorf("life %d: publish: %v", life, err)
		}
		if _, err := g.r.ListOffset(t.Context(), ListOffset{Where: Latest}); !fault.Is(err, fault.Corrupt) {
			t.Errorf("life %d: list offsets: %v", life, err)
		}
		g.stop()
	}
}

// A log whose last batch cannot be read ends where its mark says, and goes on there.
func TestRottenEnd(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("first-value")
	g.mustPublish("second-value")
	end := g.r.State().End
	g.stop()
	g.spoil(0, "second-value", blank)
	_ = g.mem.Remove(logDir + "/" + segment.Name(0, segment.IndexPart)) // there may be none
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	g.r.Assign(g.register.nominate(g.incarnation))
	g.await(func(State) bool { return g.r.Unfit() != "" })
	if got := g.r.State().End; got != end {
		t.Errorf("the log ends at %d, the mark said %d", got, end)
	}
	values, damaged := g.readable(end)
	if diff := cmp.Diff([]string{"first-value"}, values); diff != "" || len(damaged) != 1 {
		t.Errorf("damaged %v, values (-want +got):\n%s", damaged, diff)
	}
}

// A device that cannot give some bytes is damage of these bytes, and never the end of the log.
func TestUnreadableRecords(t *testing.T) {
	g, disk := newFaultyRig(t)
	for range 64 {
		g.mustPublish(strings.Repeat("v", 1000))
	}
	hw := g.r.State().HighWatermark
	rule := disk().Add(faultfs.Rule{Ops: faultfs.Read, Path: "*.log", From: 32 << 10, To: 40 << 10, Err: syscall.EIO})
	values, damaged := g.readable(hw)
	if len(damaged) != 1 || damaged[0][0] < 20 || damaged[0][1] > 50 || damaged[0][1]-damaged[0][0] < 7 {
		t.Fatalf("damaged %v", damaged)
	}
	if lost := damaged[0][1] - damaged[0][0]; len(values)+int(lost) != 64 {
		t.Errorf("%d values and %d lost", len(values), lost)
	}
	if diff := cmp.Diff(damaged, g.keptFaults()); diff != "" {
		t.Errorf("the journal's faults (-want +got):\n%s", diff)
	}
	g.mustPublish("more") // the epoch goes on
	g.stop()
	rule.Remove()
	g.start()
	if _, damaged := g.readable(hw); len(damaged) != 0 || len(g.keptFaults()) != 0 {
		t.Errorf("bytes that can be read again stay damaged: %v, the journal has %v", damaged, g.keptFaults())
	}
}

// Bytes that fail while they are sent are found too: the next fetch names them.
func TestUnreadableWhileSending(t *testing.T) {
	g, disk := newFaultyRig(t)
	for range 16 {
		g.mustPublish(strings.Repeat("v", 1000))
	}
	got, err := g.r.Fetch(t.Context(), Fetch{Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	disk().Add(faultfs.Rule{Ops: faultfs.Read, Path: "*.log", From: 8 << 10, To: 12 << 10, Err: syscall.EIO})
	if _, err := got.Chunk.WriteTo(&bytes.Buffer{}); err == nil {
		t.Fatal("sent all of it")
	}
	got.Chunk.Close()
	g.await(func(s State) bool { return s.Damaged > 0 })
}

// That the end may have lost what was acknowledged is remembered until an epoch has begun behind it.
func TestRaggedIsRemembered(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a")
	if err := g.journal.Put(journal.HW(theReplica, 100)); err != nil { // of what the disk has lost
		t.Fatal(err)
	}
	if err := g.journal.Sync(); err != nil {
		t.Fatal(err)
	}
	ragged := func() bool {
		kept, _ := g.journal.Replica(theReplica)
		return kept.Ragged
	}
	for life := range 2 {
		g.crashAll()
		if err := g.open(); err != nil {
			t.Fatal(err)
		}
		if !ragged() || !g.suspect() {
			t.Fatalf("life %d: ragged is %v, the core's suspect %v", life, ragged(), g.suspect())
		}
	}
	// With nothing else left that would say it: the journal's word is enough.
	g.kill()
	g.mem = memfs.New()
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	if err := g.journal.Put(journal.Ragged(theReplica, true)); err != nil {
		t.Fatal(err)
	}
	if err := g.journal.Sync(); err != nil {
		t.Fatal(err)
	}
	g.crashAll()
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	if !g.suspect() {
		t.Fatal("the journal's word is forgotten")
	}
	g.elect()
	for until := time.Now().Add(20 * time.Second); ragged() || g.suspect(); runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the end stays suspect")
		}
	}
}

func (g *rig) suspect() bool {
	s, err := ask(context.Background(), g.r, false, func(answer func(bool, error)) { answer(g.r.core.Report().Suspect, nil) })
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// newFaultyRig gives a replica that leads and the disk of its present life.
func newFaultyRig(t *testing.T) (*rig, func() *faultfs.FS) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) {
		g.wrap = func(mem *memfs.FS) vfs.FS {
			disk = faultfs.New(mem, g.clock)
			return disk
		}
	})
	return g.start(), func() *faultfs.FS { return disk }
}
