package wal

import (
	"fmt"
	"testing"

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
