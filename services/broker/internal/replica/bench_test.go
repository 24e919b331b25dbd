package replica

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/durability"
)

// BenchmarkPublish publishes batches with a window in flight to one partition on the machine's disk.
func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct {
		name    string
		records int
		window  int
		policy  durability.Policy
	}{
		{"one record, one in flight", 1, 1, durability.Policy{}},
		{"one record, 256 in flight", 1, 256, durability.Policy{}},
		{"one record, 256 in flight, none", 1, 256, durability.Policy{None: true}},
		{"256 KiB, 16 in flight", 2600, 16, durability.Policy{}},
		{"256 KiB, 16 in flight, none", 2600, 16, durability.Policy{None: true}},
	} {
		b.Run(c.name, func(b *testing.B) { publishMany(b, c.records, c.window, c.policy) })
	}
}

func publishMany(b *testing.B, records, window int, policy durability.Policy) {
	dir := b.TempDir()
	disk, err := osfs.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	g := newRig(b, func(g *rig) {
		g.sync, g.topic.SegmentBytes = policy, 128<<20
		g.wrap = func(*memfs.FS) vfs.FS { return disk }
	}).start()
	var values []string
	for i := range records {
		values = append(values, fmt.Sprintf("%0100d", i))
	}
	template := message(batch.BuildOptions{}, values...)
	buffers := make(chan []byte, window)
	for range window {
		buffers <- make([]byte, len(template))
	}
	b.SetBytes(int64(len(template)))
	b.ReportAllocs()
	b.ResetTimer()
	var failed atomic.Int64
	tokens := make(chan struct{}, window)
	for range b.N {
		tokens <- struct{}{}
		buffer := <-buffers
		copy(buffer, template)
		g.r.Publish(Publish{Msg: buffer, Release: func() { buffers <- buffer }, Done: func(_ Published, err error) {
			if err != nil {
				failed.Add(1)
			}
			<-tokens
		}})
	}
	for range window {
		tokens <- struct{}{}
	}
	b.StopTimer()
	if failed.Load() > 0 {
		b.Fatalf("%d failed", failed.Load())
	}
	g.kill()
}
