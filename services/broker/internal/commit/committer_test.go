package commit

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// liveDisk is what a committer runs on, with goroutines as in a broker.
type liveDisk struct {
	j     *journal.Journal
	c     *Committer
	pool  *workers.Pool
	logs  []*list
	close func()
}

func newLiveDisk(t testing.TB, fsys vfs.FS, cfg Config, logs int) *liveDisk {
	t.Helper()
	j, _, err := journal.Open(journal.Config{FS: fsys, Dir: "journal", Create: true, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	d := &liveDisk{j: j, pool: workers.New(16)}
	cfg.Journal, cfg.Workers, cfg.Log, cfg.Metrics = j, d.pool, discard(), prometheus.NewRegistry()
	if d.c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	files := segment.NewFiles(fsys, 1024)
	for i := range logs {
		l := &list{id: partition.UUIDOf(1, uint64(i)), leader: segmenttest.New(t)}
		if err := j.Put(journal.Created(l.id, partition.ID{}, journal.Origin{})); err != nil {
			t.Fatal(err)
		}
		l.log, _, err = wal.Open(t.Context(), wal.Config{
			FS: fsys, Dir: fmt.Sprintf("replicas/%d/log", i), Tag: segmenttest.Tag, Log: discard(), Files: files,
		}, wal.Evidence{})
		if err != nil {
			t.Fatal(err)
		}
		l.seat = d.c.Join(l.id, l.log)
		d.logs = append(d.logs, l)
	}
	d.close = sync.OnceFunc(func() {
		for _, l := range d.logs {
			l.seat.Leave(l.log.Close() == nil)
		}
		if err := d.c.Close(); err != nil {
			t.Error(err)
		}
		d.pool.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.close)
	return d
}

// beginRing has the ring there before the test, which in a broker is made when it is first wanted.
func (d *liveDisk) beginRing(t testing.TB) {
	t.Helper()
	d.c.mu.Lock()
	d.c.mu.noRing = true
	d.c.mu.Unlock()
	if err := d.c.begin(); err != nil {
		t.Fatal(err)
	}
}

// What comes while a sync of the journal runs shares the next one, and nobody who asks is held up by it.
func TestSyncsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := faultfs.New(memfs.New(), clock.Real())
		d := newLiveDisk(t, faulty, Config{Mode: Always, Limits: Limits{RingBytes: 1 << 20}}, 20)
		defer d.close()
		d.beginRing(t)
		for _, l := range d.logs {
			if err := l.append(100, true); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		syncs, answered := 0, 0
		faulty.Observe(func(c faultfs.Call) {
			if c.Op == faultfs.Sync {
				mu.Lock()
				syncs++
				mu.Unlock()
			}
		})
		gate := make(chan struct{})
		faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Until: gate, Count: 1})
		for _, l := range d.logs {
			l.seat.Sync(func(err error) {
				mu.Lock()
				defer mu.Unlock()
				answered++
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // the first hangs in its sync, the others wait for it
		}
		if answered != 0 {
			t.Errorf("%d are answered before anything is durable", answered)
		}
		close(gate)
		synctest.Wait()
		if syncs != 2 || answered != len(d.logs) {
			t.Errorf("%d syncs for %d of %d logs, want 2", syncs, answered, len(d.logs))
		}
		for i, l := range d.logs {
			if l.log.Persisted() != l.end {
				t.Errorf("log %d is persisted up to %d of %d", i, l.log.Persisted(), l.end)
			}
		}
		faulty.Observe(nil)
	})
}

// A full ring holds nobody up: files are synced until a checkpoint has made room, and then the ring is used again.
func TestFullRing(t *testing.T) {
	fsys := memfs.New()
	d := newLiveDisk(t, fsys, Config{Mode: Auto, Limits: Limits{RingBytes: journal.MinRingBytes, SmallBytes: 8 << 10}}, 8)
	d.beginRing(t)
	var wg sync.WaitGroup
	for _, l := range d.logs {
		wg.Go(func() {
			for i := range 60 {
				if err := l.append(2000, i%20 == 0); err != nil {
					t.Error(err)
					return
				}
				done := make(chan error, 1)
				l.seat.Sync(func(err error) { done <- err })
				if err := <-done; err != nil {
					t.Error(err)
					return
				}
				if l.log.Persisted() < l.end {
					t.Errorf("answered at %d, persisted up to %d", l.end, l.log.Persisted())
				}
			}
		})
	}
	wg.Wait()
	used, size := d.c.mu.ring.Used()
	if used > size {
		t.Errorf("%d of %d bytes are used", used, size)
	}
	d.close()
	if _, state, err := journal.Open(journal.Config{FS: fsys.CrashNone(), Dir: "journal"}); err != nil || state.Ring.Used || state.Ring.Tail < 2 {
		t.Errorf("after a clean stop the ring is %+v, %v", state.Ring, err)
	}
}

// What comes into the ring while a checkpoint syncs the same file is not freed by it: the sync may have begun before.
func TestCheckpointFreesOnlyWhatItSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memfs.New()
		faulty := faultfs.New(inner, clock.Real())
		d := newLiveDisk(t, faulty, Config{Mode: Always, Limits: Limits{RingBytes: journal.MinRingBytes}}, 1)
		defer d.close()
		d.beginRing(t)
		l, ring := d.logs[0], d.c.mu.ring
		persist := func() {
			if err := l.append(100, l.end == 0); err != nil {
				t.Fatal(err)
			}
			l.seat.Sync(func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if l.log.Persisted() != l.end {
				t.Fatalf("persisted up to %d of %d", l.log.Persisted(), l.end)
			}
		}
		persist()
		gate := make(chan struct{})
		faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Until: gate, Count: 1})
		d.c.startCheckpoint(ring)
		synctest.Wait() // it hangs in the sync of the file
		second := ring.Next()
		persist()
		close(gate)
		synctest.Wait()
		j, _, err := journal.Open(journal.Config{FS: inner.CrashNone(), Dir: "journal"})
		if err != nil {
			t.Fatal(err)
		}
		if redo := j.Redo(); len(redo) != 1 || redo[0].Group != second {
			t.Errorf("after the checkpoint the ring holds %+v, want group %d", redo, second)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// The ring is made when logs first come together, not before, and nobody waits for it.
func TestRingIsMadeWhenWanted(t *testing.T) {
	fsys := memfs.New()
	d := newLiveDisk(t, fsys, Config{Limits: Limits{RingBytes: journal.MinRingBytes}}, 4)
	sync1 := func(l *list) {
		if err := l.append(10, l.end == 0); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		l.seat.Sync(func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	sync1(d.logs[0])
	if _, err := fsys.Stat(ringFile); err == nil {
		t.Error("there is a ring for one log")
	}
	d.c.makeRoom(nil, 2) // as after a round with two
	d.close()
	if info, err := fsys.Stat(ringFile); err != nil || info.Size != journal.MinRingBytes {
		t.Errorf("the ring has %d bytes, %v", info.Size, err)
	}
}
