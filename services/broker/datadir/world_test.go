package datadir_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/datadir"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

var (
	cluster = partition.UUIDOf(1, 1)
	orders  = partition.ID{Topic: partition.UUIDOf(2, 2), Index: 3}
	replica = partition.UUIDOf(4, 4)
)

const (
	logDir  = "replicas/00000000-0000-0004-0000-000000000004/log"
	dataDir = "."
)

// disk is a broker's data directory in memory, made with the broker's own code.
type disk struct {
	*memfs.FS
	t    *testing.T
	at   batch.Stamps
	wal  *wal.Log
	fold *fold.State
	// positions of the batches, by segment.
	positions map[partition.Offset][]int64
}

// newDisk makes a directory with segments [0, 6), [6, 13) and [13, …), the first two of them sealed; the journal's mark is behind the last
// batch but one.
func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{FS: memfs.New(), t: t, fold: fold.New(0, 0), positions: map[partition.Offset][]int64{}}
	_, err := ident.Open(d.FS, cluster, 7, func() partition.UUID { return partition.UUIDOf(9, 9) }, time.Unix(0, 0))
	d.must(err)
	d.must(d.MkdirAll("replicas/" + replica.String()))
	data, err := json.Marshal(map[string]any{"format": 1, "cluster": cluster, "topic": orders.Topic, "partition": orders.Index, "replica": replica})
	d.must(err)
	d.write("replicas/"+replica.String()+"/ident", data)
	j, _, err := journal.Open(journal.Config{FS: d.FS, Dir: "journal", Create: true, Limits: journal.Limits{CheckpointBytes: 4 << 10}})
	d.must(err)
	d.must(j.Put(journal.Created(replica, orders, journal.Origin{})))
	d.must(j.Put(journal.Promise(replica, 1)))
	d.must(j.Close())
	j, _, err = journal.Open(journal.Config{FS: d.FS, Dir: "journal", Limits: journal.Limits{CheckpointBytes: 4 << 10}})
	d.must(err)

	hi, lo := orders.Topic.Halves()
	d.at = batch.Stamps{Epoch: 1, AppendTime: 1_000_000, PartitionTag: batch.PartitionTag(hi, lo, uint32(orders.Index))}
	d.wal, _, err = wal.Open(t.Context(), wal.Config{FS: d.FS, Dir: logDir, Tag: d.at.PartitionTag}, wal.Evidence{})
	d.must(err)
	d.append(d.records(3), false)
	d.append(d.records(3), false)
	d.append(d.records(3), true)
	d.seal(0)
	d.append(d.records(3), false)
	d.append(d.records(70), true)
	d.seal(6)
	for range 5 {
		d.append(d.records(40), false)
	}
	d.must(d.wal.Sync())
	d.must(j.Put(journal.Mark(replica, d.wal.Mark()), journal.HW(replica, d.wal.End())))
	d.must(j.Sync())
	d.append(d.records(3), false)
	d.append(d.records(3), false)
	d.must(d.wal.Close())
	d.must(j.Close())
	return d
}

func (d *disk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) records(n int) []byte {
	d.t.Helper()
	var b batch.Builder
	for range n {
		d.must(b.Add(batch.Record{Value: []byte(strings.Repeat("v", 900)), Timestamp: 1}))
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	d.must(err)
	return msg
}

// append stamps a batch and writes it; cut starts a new segment with it.
func (d *disk) append(msg []byte, cut bool) {
	d.t.Helper()
	if cut {
		d.at.SegmentBase = d.at.BaseOffset
	}
	d.at.AppendTime++
	batch.Stamp(msg, d.at)
	h, err := batch.ParseHeader(msg)
	d.must(err)
	d.positions[partition.Offset(h.SegmentBase)] = append(d.positions[partition.Offset(h.SegmentBase)], int64(h.Size))
	d.must(d.wal.Append([][]byte{msg}))
	d.must(d.fold.Add(&h, msg))
	d.at.BaseOffset, d.at.Chain = h.NextOffset(), batch.NextChain(msg)
	d.must(d.fold.Commit(partition.Offset(d.at.BaseOffset)))
	d.at.CommitHint = d.at.BaseOffset
}

// seal seals a segment that ended, as a leader does.
func (d *disk) seal(base partition.Offset) {
	d.t.Helper()
	d.must(d.wal.Sync())
	size, sum, err := d.wal.Digest(base)
	d.must(err)
	end := partition.Offset(d.at.SegmentBase)
	msg, err := batch.BuildControl(nil, func(c batchcapnp.Control) error {
		return sealed.FillSealControl(c, sealed.Seal{Base: base, End: end, Size: uint64(size), SHA256: sum})
	})
	d.must(err)
	d.append(msg, false)
	state, ok := d.fold.Boundary(end)
	if !ok {
		d.t.Fatalf("no snapshot at %d", end)
	}
	d.must(d.wal.MarkSealed(base, sum, state))
}

func (d *disk) read(name string) []byte {
	d.t.Helper()
	file, err := d.Open(name, 0)
	d.must(err)
	defer file.Close()
	size, err := file.Size()
	d.must(err)
	p := make([]byte, size)
	if _, err := file.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		d.t.Fatal(err)
	}
	return p
}

func (d *disk) write(name string, p []byte) {
	d.t.Helper()
	file, err := d.Open(name, vfs.Write|vfs.Create)
	d.must(err)
	d.must(file.Truncate(0))
	_, err = file.WriteAt(p, 0)
	d.must(err)
	d.must(file.Sync())
	d.must(file.Close())
}

// change changes a file's bytes.
func (d *disk) change(name string, by func(p []byte) []byte) {
	d.t.Helper()
	d.write(name, by(d.read(name)))
}

// copy gives a directory with the same files.
func (d *disk) copy() *disk {
	crashed := *d
	d.must(d.SyncAll())
	crashed.FS = d.Crash(rand.New(rand.NewPCG(1, 1)))
	return &crashed
}

// journalFile names the journal's file.
func (d *disk) journalFile() string {
	names, err := d.List("journal")
	d.must(err)
	return "journal/" + names[len(names)-1]
}

func (d *disk) verify(name string, o datadir.Options) *datadir.Report {
	d.t.Helper()
	report, err := datadir.Verify(context.Background(), readOnly{d.FS, d.t}, name, o)
	d.must(err)
	return report
}

func part(base partition.Offset, p segment.Part) string { return logDir + "/" + segment.Name(base, p) }

// readOnly fails the test when something is written.
type readOnly struct {
	vfs.FS
	t *testing.T
}

func (r readOnly) Open(name string, flags vfs.Flag) (vfs.File, error) {
	if flags&^vfs.Direct != 0 {
		r.t.Errorf("opened %s to write", name)
	}
	return r.FS.Open(name, flags)
}

func (r readOnly) refuse(op, name string) error {
	r.t.Errorf("%s %s", op, name)
	return nil
}
func (r readOnly) Remove(name string) error            { return r.refuse("remove", name) }
func (r readOnly) RemoveAll(name string) error         { return r.refuse("remove", name) }
func (r readOnly) Rename(name, _ string) error         { return r.refuse("rename", name) }
func (r readOnly) MkdirAll(name string) error          { return r.refuse("mkdir", name) }
func (r readOnly) SyncDir(name string) error           { return r.refuse("sync", name) }
func (r readOnly) SyncAll() error                      { return r.refuse("sync", "all") }
func (r readOnly) Lock(name string) (io.Closer, error) { return nil, r.refuse("lock", name) }
