package commit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// BenchmarkCommit appends to many partitions of a real disk, one append in flight each, and tells acks a second and syncs per ack.
// TMPDIR says where.
//
//	go test -run '^$' -bench Commit -benchtime 20000x ./internal/commit
func BenchmarkCommit(b *testing.B) {
	for _, partitions := range []int{1, 16, 256, 4096} {
		for _, size := range []int{100, 4 << 10} {
			for _, mode := range []Mode{Never, Auto, Always} {
				b.Run(fmt.Sprintf("partitions=%d/bytes=%d/journal=%s", partitions, size, mode), func(b *testing.B) {
					benchmark(b, partitions, size, mode)
				})
			}
		}
	}
}

func benchmark(b *testing.B, partitions, size int, mode Mode) {
	disk, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	counted := faultfs.New(disk, clock.Real())
	d := newLiveDisk(b, counted, Config{Mode: mode, Limits: Limits{RingBytes: 64 << 20}}, partitions)
	defer d.close()
	if mode != Never {
		d.beginRing(b)
	}
	one := func(l *list) {
		if err := l.appendOnly(size); err != nil {
			b.Error(err)
			return
		}
		done := make(chan error, 1)
		l.seat.Sync(func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	each(d.logs, one) // the files are there
	var syncs, left atomic.Int64
	counted.Observe(func(c faultfs.Call) {
		if c.Op == faultfs.Sync {
			syncs.Add(1)
		}
	})
	left.Store(int64(b.N))
	b.ResetTimer()
	start := time.Now()
	each(d.logs, func(l *list) {
		for left.Add(-1) >= 0 {
			one(l)
		}
	})
	took := time.Since(start)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/took.Seconds(), "acks/s")
	b.ReportMetric(float64(syncs.Load())/float64(b.N), "syncs/ack")
}

func each(logs []*list, do func(*list)) {
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() { do(l) })
	}
	wg.Wait()
}

// appendOnly appends without keeping the batch.
func (l *list) appendOnly(size int) error {
	err := l.append(size, false)
	l.batches = nil
	return err
}
