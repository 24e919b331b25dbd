package scrub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a disk with sealed segments and a scrubber on it.
type world struct {
	t     *testing.T
	fs    *memfs.FS
	clock *clock.Manual
	log   safeBuffer
	*Scrubber

	mu  sync.Mutex
	all []Segment
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newWorld makes n segments of about 100 KB each.
func newWorld(t *testing.T, n int, cfg Config) *world {
	t.Helper()
	w := &world{t: t, fs: memfs.New(), clock: clock.NewManual(time.Unix(1000, 0))}
	leader := segmenttest.New(t)
	for i := range n {
		s := Segment{Replica: partition.UUIDOf(1, 1), File: strings.Repeat("x", i+1), Base: leader.End, Tag: segmenttest.Tag}
		var data []byte
		for j := range 4 {
			data = append(data, leader.Data(10, 2500, j == 0)...)
		}
		s.End, s.Chain, s.Size, s.SHA256 = leader.End, leader.Chain, int64(len(data)), sha256.Sum256(data)
		w.write(s.File, data, 0)
		w.all = append(w.all, s)
	}
	var err error
	w.Scrubber, err = New(cfg, Deps{
		FS: w.fs, Clock: w.clock, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Metrics: prometheus.NewRegistry(),
		Rand: strings.NewReader("12345678"), Segments: w.segments,
		Do: func(ctx context.Context, job func()) error { job(); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) segments() []Segment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Segment(nil), w.all...)
}

func (w *world) drop(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all[:i:i], w.all[i+1:]...)
}

func (w *world) write(name string, p []byte, at int64) {
	w.t.Helper()
	file, err := w.fs.Open(name, vfs.Write|vfs.Create)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(p, at); err != nil {
		w.t.Fatal(err)
	}
}

// flip changes a byte; again it is as before.
func (w *world) flip(name string, at int64) {
	w.t.Helper()
	file, err := w.fs.Open(name, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	p := make([]byte, 1)
	if _, err := file.ReadAt(p, at); err != nil {
		w.t.Fatal(err)
	}
	w.write(name, []byte{p[0] ^ 4}, at)
}

// until runs the scrubber, and time, until done; it gives how much time went by.
func (w *world) until(done func() bool, step time.Duration) time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	start := w.clock.Now()
	for range 100_000 {
		if err := w.clock.AwaitPending(ctx, 1); err != nil {
			w.t.Fatal(err)
		}
		if done() {
			cancel()
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
			return w.clock.Now().Sub(start)
		}
		w.clock.Advance(step)
	}
	cancel()
	<-ended
	w.t.Fatal("it did not come to that")
	return 0
}

func (w *world) passed() bool { return testutil.ToFloat64(w.metrics.pass) > 0 }

// A pass reads everything once, takes about its interval, and finds nothing in good segments.
func TestPass(t *testing.T) {
	w := newWorld(t, 5, Config{Rate: 1 << 20, Interval: 1000 * time.Second})
	took := w.until(w.passed, time.Second)
	if took < 780*time.Second || took > 1000*time.Second {
		t.Errorf("a pass over five segments of the same size took %v, want four fifths of its interval", took)
	}
	var total int64
	for _, s := range w.all {
		total += s.Size
	}
	if got := testutil.ToFloat64(w.metrics.bytes); got != float64(total) {
		t.Errorf("read %v bytes of %d", got, total)
	}
	if testutil.ToFloat64(w.metrics.faults) != 0 || strings.Contains(w.log.String(), "ERROR") {
		t.Errorf("faults in good segments: %s", w.log.String())
	}
}

// The rate holds, whatever the interval says.
func TestRate(t *testing.T) {
	w := newWorld(t, 8, Config{Rate: 64 << 10, Interval: time.Second})
	// Each of eight segments is read in one window of 256 KiB; the next begins when the last one's time is over.
	if took := w.until(w.passed, 100*time.Millisecond); took > 2*time.Second {
		t.Errorf("small segments took %v: each waits only for its own bytes", took)
	}
	big := newWorld(t, 1, Config{Rate: 64 << 10, Interval: time.Second})
	leader := segmenttest.New(t)
	var data []byte
	for j := range 40 {
		data = append(data, leader.Data(10, 2500, j == 0)...)
	}
	big.write("big", data, 0)
	big.all = []Segment{{File: "big", End: leader.End, Chain: leader.Chain, Size: int64(len(data)), Tag: segmenttest.Tag, SHA256: sha256.Sum256(data)}}
	want := time.Duration(len(data)/windowBytes) * 4 * time.Second
	if took := big.until(big.passed, 100*time.Millisecond); took < want || took > want+5*time.Second {
		t.Errorf("%d bytes at 64 KiB a second took %v, want %v", len(data), took, want)
	}
}

// Every kind of damage is found, told once with its place, and counted once; and forgotten when the bytes are good again or gone.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(w *world)
		text string
	}{
		{"body", func(w *world) { w.flip("xx", w.all[1].Size-100) }, "body has"},
		{"header", func(w *world) { w.flip("xx", 60) }, "position=0"},
		{"digest", func(w *world) { w.all[1].SHA256[0]++ }, "the Seal says"},
		{"end", func(w *world) { w.all[1].End++ }, "sealed were"},
		{"missing", func(w *world) { _ = w.fs.Remove("xx") }, "file=mem:xx"},
		{"short", func(w *world) {
			file, _ := w.fs.Open("xx", vfs.Write)
			_ = file.Truncate(500)
			_ = file.Close()
		}, "the file ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3, Config{Rate: 1 << 20, Interval: 10 * time.Second})
			c.harm(w)
			passes := 0
			w.until(func() bool {
				if w.passed() {
					w.metrics.pass.Set(0)
					passes++
				}
				return passes == 2
			}, time.Second)
			told := w.log.String()
			if n := strings.Count(told, "level=ERROR"); n != 1 || !strings.Contains(told, c.text) {
				t.Errorf("%d errors, want one with %q:\n%s", n, c.text, told)
			}
			if testutil.ToFloat64(w.metrics.faults) != 1 || testutil.ToFloat64(w.metrics.faulty) != 1 {
				t.Error("the fault is not counted once")
			}
			w.drop(1)
			w.until(func() bool { return testutil.ToFloat64(w.metrics.faulty) == 0 }, time.Second)
		})
	}
}

func TestRepairedIsGoodAgain(t *testing.T) {
	w := newWorld(t, 2, Config{Rate: 1 << 20, Interval: 10 * time.Second})
	w.flip("x", 300)
	w.until(func() bool { return testutil.ToFloat64(w.metrics.faulty) == 1 }, time.Second)
	w.flip("x", 300)
	w.until(func() bool { return testutil.ToFloat64(w.metrics.faulty) == 0 }, time.Second)
	if !strings.Contains(w.log.String(), "good again") {
		t.Error("nobody says so")
	}
}

// Bytes that are bad once are read again; a segment that is dropped while it is read is no fault.
func TestNoFalseAlarm(t *testing.T) {
	w := newWorld(t, 1, Config{Rate: 1 << 20, Interval: 10 * time.Second})
	w.flip("x", 300)
	reads := 0
	w.deps.Do = func(ctx context.Context, job func()) error {
		job()
		if reads++; reads == 1 {
			w.flip("x", 300)
		}
		return ctx.Err()
	}
	w.until(w.passed, time.Second)
	if reads < 2 || strings.Contains(w.log.String(), "ERROR") {
		t.Errorf("%d reads: %s", reads, w.log.String())
	}
	w = newWorld(t, 1, Config{Rate: 1 << 20, Interval: 10 * time.Second})
	w.deps.Do = func(ctx context.Context, job func()) error {
		w.mu.Lock()
		w.all = nil
		w.mu.Unlock()
		_ = w.fs.Remove("x")
		w.write("x", bytes.Repeat([]byte("other"), 50_000), 0)
		job()
		return ctx.Err()
	}
	w.until(w.passed, time.Second)
	if strings.Contains(w.log.String(), "ERROR") {
		t.Errorf("a recycled file is called damage: %s", w.log.String())
	}
}

// The plan takes what was not looked at for the longest time, in another order with another salt; what comes during a pass belongs to the
// next one.
func TestPlan(t *testing.T) {
	all := make([]Segment, 20)
	for i := range all {
		all[i] = Segment{Base: partition.Offset(i), Size: 10}
	}
	orders := map[partition.Offset]bool{}
	for salt := range uint64(10) {
		now := time.Unix(0, 0)
		p := newPlan(200*time.Second, salt)
		seen := map[partition.Offset]bool{}
		list := all
		for i := range 41 {
			now = now.Add(time.Second)
			s, at, ok := p.next(list, now)
			if !ok {
				t.Fatal("nothing to do")
			}
			if i > 0 {
				if gap := at.Sub(p.last); gap != 10*time.Second && len(list) == 20 {
					t.Errorf("the next begins after %v, want a twentieth of the interval", gap)
				}
				now = at
			} else {
				orders[s.Base] = true
			}
			if seen[s.Base] {
				t.Errorf("segment %d again before the pass was over", s.Base)
			}
			seen[s.Base] = true
			if i == 3 {
				list = append(list[:20:20], Segment{Base: 99, Size: 10})
			}
			p.begin(&s, now)
			if done := p.done(&s, list, now); done != (i == 19 || i == 40) {
				t.Errorf("step %d: pass over: %v", i, done)
			} else if done {
				if seen[99] != (i == 40) {
					t.Errorf("step %d: the segment that came in the first pass was read: %v", i, seen[99])
				}
				clear(seen)
			}
		}
	}
	if len(orders) < 3 {
		t.Errorf("ten lives began with %d segments", len(orders))
	}
	p := newPlan(time.Hour, 1)
	if _, _, ok := p.next(nil, time.Unix(0, 0)); ok {
		t.Error("something to do on an empty disk")
	}
	p.next(all, time.Unix(0, 0))
	p.next(all[:1], time.Unix(0, 0))
	if len(p.known) != 1 {
		t.Errorf("%d segments are remembered, one is there", len(p.known))
	}
}
