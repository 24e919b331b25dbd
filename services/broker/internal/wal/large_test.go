package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/proto/batch"
)

const (
	sparseBatch   = 1 << 20
	sparseSegment = 128 << 20
)

// sparse makes logs whose bodies are holes: only the headers take room.
type sparse struct {
	t    testing.TB
	fs   vfs.FS
	head []byte // of a batch whose body is zeros
}

func newSparse(t testing.TB, fsys vfs.FS) *sparse {
	var b batch.Builder
	if err := b.Add(batch.Record{Value: make([]byte, sparseBatch-batch.HeaderBytes-1024), Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clear(msg[batch.HeaderBytes:])
	const atBodyCRC = 16 + 144
	binary.LittleEndian.PutUint32(msg[atBodyCRC:], crc32.Checksum(msg[batch.HeaderBytes:], crc32.MakeTable(crc32.Castagnoli)))
	batch.Stamp(msg, batch.Stamps{PartitionTag: testTag})
	if _, err := batch.ParseHeader(msg); err != nil {
		t.Fatal(err)
	}
	if err := batch.CheckBody(msg); err != nil {
		t.Fatal(err)
	}
	return &sparse{t, fsys, msg}
}

// log makes a log of so many segments; the last one has an index only after a clean stop. It gives the mark that a journal would hold: some
// batches before the end, where the log was killed.
func (s *sparse) log(dir string, segments int, clean bool) segment.Mark {
	s.t.Helper()
	if err := s.fs.MkdirAll(dir); err != nil {
		s.t.Fatal(err)
	}
	var at, chain uint64
	var mark segment.Mark
	size := len(s.head)
	for n := range segments {
		base := at
		file, err := s.fs.Open(dir+"/"+segment.Name(partition.Offset(base), segment.LogPart), vfs.Write|vfs.Create|vfs.Exclusive)
		if err != nil {
			s.t.Fatal(err)
		}
		x := &segment.Index{Summary: segment.Summary{Base: partition.Offset(base), End: partition.Offset(base), Tag: testTag, Chain: chain}}
		for i := range sparseSegment / size {
			batch.Stamp(s.head, batch.Stamps{SegmentBase: base, BaseOffset: at, Epoch: 1, AppendTime: int64(at) + 1, Chain: chain, PartitionTag: testTag})
			h, err := batch.ParseHeader(s.head)
			if err != nil {
				s.t.Fatal(err)
			}
			if _, err := file.WriteAt(s.head[:batch.HeaderBytes], int64(i*size)); err != nil {
				s.t.Fatal(err)
			}
			at, chain = h.NextOffset(), batch.NextChain(s.head)
			x.Add(&h, chain)
			if i == sparseSegment/size-2 { // a second of writing at the disk's speed, spread over all logs
				mark = segment.Mark{Base: x.Base, Offset: x.End, Position: x.Size, Chain: chain}
			}
		}
		if err := file.Truncate(x.Size); err != nil {
			s.t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			s.t.Fatal(err)
		}
		if n < segments-1 || clean {
			if err := segment.WriteIndex(s.fs, dir, x); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if clean {
		mark = segment.Mark{Base: mark.Base, Offset: partition.Offset(at), Position: int64(sparseSegment / size * size), Chain: chain}
	}
	return mark
}

// counted is a file system that counts the bytes that are read.
type counted struct {
	vfs.FS
	read atomic.Int64
}

func (c *counted) Open(name string, flags vfs.Flag) (vfs.File, error) {
	file, err := c.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &countedFile{file, c}, nil
}

type countedFile struct {
	vfs.File
	fs *counted
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.read.Add(int64(n))
	return n, err
}

// Opening reads indexes, the headers of the last segment, and the bodies behind the mark; nothing else, however large the log is.
func TestOpenLargeLogs(t *testing.T) {
	total := config.Bytes(2 << 30)
	if text := os.Getenv("SQ_FOOTPRINT_LOG"); text != "" {
		if err := total.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	all := int(total) / sparseSegment
	for _, shape := range []struct{ logs, segments int }{{1, all}, {all, 1}} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d logs of %d segments, clean %v", shape.logs, shape.segments, clean), func(t *testing.T) {
				disk, err := osfs.New(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer disk.Close()
				s := newSparse(t, disk)
				marks := make([]segment.Mark, shape.logs)
				for i := range marks {
					marks[i] = s.log(fmt.Sprintf("p/%d", i), shape.segments, clean)
				}
				count := &counted{FS: disk}
				begun := time.Now()
				logs := make([]*Log, shape.logs)
				var opening sync.WaitGroup
				places := make(chan struct{}, 16)
				for i := range logs {
					opening.Go(func() {
						places <- struct{}{}
						defer func() { <-places }()
						l, r, err := Open(t.Context(), Config{FS: count, Dir: fmt.Sprintf("p/%d", i), Tag: testTag}, Evidence{Mark: marks[i]})
						if err != nil || r.Class != segment.Clean {
							t.Errorf("log %d: %v, %v", i, r.Class, err)
						}
						logs[i] = l
					})
				}
				opening.Wait()
				took := time.Since(begun)
				read := count.read.Load()
				t.Logf("opened %d MiB in %v, reading %d KiB", int(total)>>20, took, read>>10)
				limit := int64(shape.logs) * (1 << 20)
				if !clean {
					limit = int64(shape.logs) * (6 << 20)
				}
				if limit += int64(all) << 14; read > limit {
					t.Errorf("read %d bytes, want %d at most", read, limit)
				}
				for i, l := range logs {
					if l == nil {
						continue
					}
					if want := partition.Offset(shape.segments * (sparseSegment / len(s.head))); l.End() != want {
						t.Errorf("log %d ends at %d, want %d", i, l.End(), want)
					}
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// A segment that grows has its index written behind what is durable, so that a kill leaves little to be read.
func TestOpenSegmentKeepsItsIndex(t *testing.T) {
	fsys := newMem()
	l, _, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag, Limits: Limits{IndexBytes: 16 << 10}}, Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := segmenttest.New(t)
	var written int
	for range 200 {
		mustAppend(t, l, p.Data(1, 700, false))
		mustSync(t, l)
		x, err := segment.LoadIndex(fsys, testDir+"/"+segment.Name(0, segment.IndexPart))
		behind := l.Tail().SegmentBytes
		if err == nil {
			behind -= x.Size
			written++
		}
		if behind >= 16<<10 {
			t.Fatalf("the index is %d bytes behind: %v", behind, err)
		}
	}
	if written == 0 {
		t.Fatal("the segment did not grow enough to need an index")
	}
}
