package roster

import (
	"testing"

	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/disk"
)

// A disk that refuses records for lack of room gets that of the pool.
func TestPoolMakesRoom(t *testing.T) {
	b := newBroker(t)
	b.disk = memfs.New(memfs.Capacity(160 << 20))
	occupy := func(name string, head []byte, size int64) {
		t.Helper()
		f, err := b.disk.Open(name, vfs.Write|vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(head, 0); err != nil || f.Truncate(size) != nil || f.Allocate(0, size) != nil {
			t.Fatal(err)
		}
	}
	if err := b.disk.MkdirAll("pool"); err != nil {
		t.Fatal(err)
	}
	const size = 2 << 20
	occupy("pool/00000000000000000001.free", segmenttest.New(t).Data(1, 100, true), size)
	b.start()
	if kept := b.pool.Bytes(); kept < size-8 {
		t.Fatalf("the pool has %d bytes at the start, want about %d", kept, size)
	}
	b.await("nothing", func() bool { return true })
	if b.pool.Bytes() == 0 {
		t.Error("the pool is emptied although there is room")
	}
	occupy("others", []byte{1}, 140<<20)
	b.await("the disk to refuse records", func() bool { return b.watch.State() != disk.OK })
	b.await("an empty pool", func() bool { return b.pool.Bytes() == 0 })
	if names, err := b.disk.List("pool"); err != nil || len(names) != 0 {
		t.Errorf("the pool has %v, %v", names, err)
	}
}
