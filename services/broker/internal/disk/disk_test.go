package disk

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib, gib = 1 << 20, 1 << 30

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		total, refuse uint64
		want          Marks
	}{
		{10 << 40, 0, Marks{10 * gib, 2 * gib, 64 * mib}},
		{100 * gib, 0, Marks{10 * gib, 2 * gib, 64 * mib}},
		{20 * gib, 0, Marks{2 * gib, 1 * gib, 64 * mib}},
		{320 * mib, 0, Marks{32 * mib, 16 * mib, 20 * mib}},
		{320 * mib, 8 * mib, Marks{8 * mib, 4 * mib, 20 * mib}},
		{320 * mib, 1 * gib, Marks{160 * mib, 80 * mib, 20 * mib}},
	} {
		if diff := cmp.Diff(c.want, MarksOf(c.total, c.refuse)); diff != "" {
			t.Errorf("%d, %d (-want +got):\n%s", c.total, c.refuse, diff)
		}
	}
}

func TestRule(t *testing.T) {
	m := MarksOf(1600*mib, 0) // 160, 80, ballast 64
	for _, c := range []struct {
		name    string
		free    uint64
		now     State
		ballast bool
		full    bool
		want    State
		act     act
	}{
		{"room", 160 * mib, OK, true, false, OK, leave},
		{"below the first mark", 160*mib - 1, OK, true, false, RefusesRecords, leave},
		{"a little more is not enough", 170 * mib, RefusesRecords, true, false, RefusesRecords, leave},
		{"but this is", 180 * mib, RefusesRecords, true, false, OK, leave},
		{"below the second mark", 80*mib - 1, OK, true, false, RefusesAppends, leave},
		{"back above it", 90 * mib, RefusesAppends, true, false, RefusesRecords, leave},
		{"hardly any", 32*mib - 1, RefusesAppends, true, false, RefusesAppends, release},
		{"something found none", 60 * mib, RefusesAppends, true, true, RefusesAppends, release},
		{"a quota, or another volume", 900 * mib, OK, true, true, OK, leave},
		{"let go, and its own room is no reason", 100 * mib, RefusesAppends, false, false, RefusesAppends, leave},
		{"made again before appends go on", 154 * mib, RefusesAppends, false, false, RefusesRecords, remake},
		{"made at the first start", 1600 * mib, OK, false, false, OK, remake},
		{"poisoned stays", 1600 * mib, Poisoned, true, true, Poisoned, leave},
	} {
		state, do := decide(seen{vfs.Usage{Total: 1600 * mib, Free: c.free}, m, c.now, c.ballast, c.full})
		if state != c.want || do != c.act {
			t.Errorf("%s: got %v and %d, want %v and %d", c.name, state, do, c.want, c.act)
		}
	}
}

// What the rule promises, on any volume and any history: nothing is taken below a mark, and the ballast is there before appends go on.
func TestRuleHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		total := uint64(1) << (18 + random.IntN(24))
		s := seen{marks: MarksOf(total, 0), usage: vfs.Usage{Total: total, Free: total}}
		for range 50 {
			s.full = random.IntN(4) == 0
			var do act
			s.now, do = decide(s)
			switch do {
			case remake:
				s.ballast = true
				if s.marks.Ballast > s.usage.Free {
					t.Fatalf("total %d: a ballast of %d is to be made of %d free bytes", total, s.marks.Ballast, s.usage.Free)
				}
				s.usage.Free -= s.marks.Ballast
			case release:
				s.ballast = false
				s.usage.Free += s.marks.Ballast
			case leave:
			}
			if s.now == OK && s.usage.Free < s.marks.Records || s.now < RefusesAppends && s.usage.Free < s.marks.Appends {
				t.Fatalf("total %d: %v with %d free", total, s.now, s.usage.Free)
			}
			if s.now < RefusesAppends && !s.ballast && s.marks.Ballast > 0 {
				t.Fatalf("total %d: %v without ballast", total, s.now)
			}
			if s.now == RefusesAppends && s.ballast && s.usage.Free >= s.marks.Appends*5/4 {
				t.Fatalf("total %d: still %v with %d free", total, s.now, s.usage.Free)
			}
			used := total - s.usage.Free
			s.usage.Free = total - min(total, uint64(random.Int64N(int64(2*used+total/8+1))))
			if s.ballast {
				s.usage.Free = min(s.usage.Free, total-s.marks.Ballast)
			}
		}
	}
}

// rig is a watch of a disk in memory.
type rig struct {
	*Watch
	t       *testing.T
	disk    vfs.FS
	metrics *prometheus.Registry
	log     strings.Builder
}

func newRig(t *testing.T, disk vfs.FS) *rig {
	r := &rig{t: t, disk: disk, metrics: prometheus.NewRegistry()}
	w, err := New(Config{FS: disk, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(&r.log, nil)), Metrics: r.metrics})
	if err != nil {
		t.Fatal(err)
	}
	r.Watch = w
	return r
}

// others makes the rest of the volume's files so large.
func (r *rig) others(size int64) {
	r.t.Helper()
	file, err := r.disk.Open("others", vfs.Write|vfs.Create)
	if err == nil {
		err = errors.Join(file.Truncate(0), file.Truncate(size), file.Allocate(0, size), file.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) want(state State, ballast int64) {
	r.t.Helper()
	time.Sleep(2 * lookEvery)
	synctest.Wait()
	info, err := r.disk.Stat(ballastName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	if r.State() != state || info.Size != ballast {
		u, _ := r.disk.Usage()
		r.t.Fatalf("got %v and a ballast of %d, want %v and %d; %d free", r.State(), info.Size, state, ballast, u.Free)
	}
	kinds := map[State][2]fault.Kind{RefusesRecords: {fault.DiskFull, 0}, RefusesAppends: {fault.DiskFull, fault.DiskFull}}
	for i, appends := range []bool{false, true} {
		err := r.Refusal(appends)
		if want := kinds[state][i]; want == 0 && err != nil || want != 0 && !fault.Is(err, want) {
			r.t.Errorf("%v, appends %v: %v", state, appends, err)
		}
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memfs.New(memfs.Capacity(160*mib))) // 16, 8, ballast 10
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- r.Run(ctx) }()
		r.want(OK, 10*mib)
		r.others(136 * mib)
		r.want(RefusesRecords, 10*mib)
		if err := r.Ready(); !fault.Is(err, fault.DiskFull) || !strings.Contains(err.Error(), "14.0 MiB of 160.0 MiB are free, below the mark of 16.0 MiB") {
			t.Errorf("ready: %v", err)
		}
		r.others(143 * mib)
		r.want(RefusesAppends, 10*mib)
		r.NoRoom()
		r.want(RefusesAppends, 0) // its room is for seals and trims
		r.others(158 * mib)       // which they use
		r.want(RefusesAppends, 0)
		r.others(145 * mib)
		r.want(RefusesAppends, 0)
		r.others(120 * mib)
		r.want(OK, 10*mib)
		if n := strings.Count(r.log.String(), "crossed"); n != 3 {
			t.Errorf("%d changes are logged, want 3:\n%s", n, r.log.String())
		}
		if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP sq_broker_disk_ballast_bytes Bytes that are held back for what makes room; 0 while they are let go.
# TYPE sq_broker_disk_ballast_bytes gauge
sq_broker_disk_ballast_bytes 1.048576e+07
# HELP sq_broker_disk_state What the data disk takes: 0 everything, 1 no records, 2 no appends, 3 nothing, it has failed.
# TYPE sq_broker_disk_state gauge
sq_broker_disk_state 0
`), "sq_broker_disk_ballast_bytes", "sq_broker_disk_state"); err != nil {
			t.Error(err)
		}
		r.Poison(errors.New("the first"))
		r.Poison(errors.New("the second"))
		time.Sleep(time.Second)
		if err := r.Refusal(true); r.State() != Poisoned || !fault.Is(err, fault.DiskPoisoned) || !strings.Contains(err.Error(), "the first") {
			t.Errorf("%v, %v", r.State(), err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A disk that was full when the broker ended: the ballast makes room for the next start.
func TestStartsOnAFullDisk(t *testing.T) {
	disk := memfs.New(memfs.Capacity(160 * mib))
	r := newRig(t, disk)
	r.others(150 * mib)
	r = newRig(t, disk)
	if usage, err := disk.Usage(); err != nil || usage.Free != 10*mib || r.State() != RefusesAppends {
		t.Errorf("%+v, %v, %v", usage, err, r.State())
	}
	again := newRig(t, disk)
	if again.State() != RefusesAppends {
		t.Errorf("the next start: %v", again.State())
	}
}

// Whatever fails on the way to the ballast ends in an error or leaves the disk watched.
func TestFaults(t *testing.T) {
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
		for n := 1; ; n++ {
			synctest.Test(t, func(t *testing.T) {
				disk := faultfs.New(memfs.New(memfs.Capacity(160*mib)), clock.Real())
				rule := disk.Add(faultfs.Rule{First: n, Count: 1, Err: errno})
				metrics := prometheus.NewRegistry()
				w, err := New(Config{FS: disk, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Metrics: metrics})
				if err != nil {
					if !fault.Is(err, fault.DiskPoisoned) || vfs.IsFull(errno) {
						t.Errorf("call %d, %v: %v", n, errno, err)
					}
					return
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				if info, err := disk.Stat(ballastName); w.State() == OK && (err != nil || info.Size != 10*mib) {
					t.Errorf("call %d, %v: ok with a ballast of %d, %v", n, errno, info.Size, err)
				}
				cancel()
				if err := <-ended; err != nil && (vfs.IsFull(errno) || w.State() != Poisoned) {
					t.Errorf("call %d, %v: %v, %v", n, errno, w.State(), err)
				}
				if rule.Hits() == 0 {
					n = -1
				}
			})
			if n <= 0 || n > 30 {
				break
			}
		}
	}
}
