package wal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// BenchmarkAppendSync is what one group commit costs, beside the same write and fdatasync without a log.
func BenchmarkAppendSync(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 64 << 10, 256 << 10, 1000 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l, _ := openDisk(b)
			p := segmenttest.New(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				msg := p.Data(1, size, i%(128<<20/size) == 0)
				b.SetBytes(int64(len(msg)))
				b.StartTimer()
				mustAppend(b, l, msg)
				mustSync(b, l)
			}
		})
		b.Run(fmt.Sprintf("%dB-bare", size), func(b *testing.B) {
			fsys, err := osfs.New(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			f, err := fsys.Open("file", vfs.Write|vfs.Create)
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				if _, err := f.WriteAt(p, int64(i)*int64(size)); err != nil {
					b.Fatal(err)
				}
				if err := f.Datasync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecycled is BenchmarkAppendSync where each segment of 32 MiB takes over the file of one that was dropped.
func BenchmarkRecycled(b *testing.B) {
	const size = 256 << 10
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	spare, err := pool.New(fsys, "pool", pool.Limits{FileBytes: 1 << 20, PoolBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	files := segment.NewFiles(fsys, 8)
	files.Recycle(spare)
	l, _, err := Open(b.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag, Files: files}, Evidence{})
	if err != nil {
		b.Fatal(err)
	}
	p := segmenttest.New(b)
	turn := func(i int) []byte {
		if cut := i%(32<<20/size) == 0; cut {
			for _, s := range l.Segments() {
				if s.State != StateClosed {
					continue
				}
				if err := errors.Join(l.MarkSealed(s.Base, [32]byte{}, nil), l.DropBefore(s.End)); err != nil {
					b.Fatal(err)
				}
			}
		}
		return p.Data(1, size, i%(32<<20/size) == 0)
	}
	const warm = 3 * (32 << 20 / size)
	for i := range warm {
		mustAppend(b, l, turn(i))
		mustSync(b, l)
	}
	b.SetBytes(size)
	for i := warm; b.Loop(); i++ {
		b.StopTimer()
		msg := turn(i)
		b.StartTimer()
		mustAppend(b, l, msg)
		mustSync(b, l)
	}
}

// BenchmarkRead is what finding a chunk costs, for a consumer that goes on where it was.
func BenchmarkRead(b *testing.B) {
	l, _ := openDisk(b)
	p := segmenttest.New(b)
	for i := range 4000 {
		mustAppend(b, l, p.Data(10, 100, i == 0))
	}
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			from := l.Start()
			for b.Loop() {
				c, err := l.Read(from, p.End, size)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(c.Len()))
				if from = c.NextOffset; from >= p.End-1000 {
					from = l.Start()
				}
				c.Close()
			}
		})
	}
}
