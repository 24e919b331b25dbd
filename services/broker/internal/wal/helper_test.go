package wal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

const (
	testDir = "p/0"
	testTag = 0x7a67
)

// leader stamps batches as the leader of a partition does.
type leader struct {
	end, base  partition.Offset
	chain      uint64
	epoch      uint64
	appendTime int64
	hw         partition.Offset
	builder    batch.Builder
	serial     uint64
}

func newLeader() *leader { return &leader{epoch: 1, appendTime: 1000} }

// data makes a batch of n records of size bytes each; cut starts a new segment with it.
func (p *leader) data(n, size int, cut bool) []byte {
	p.builder.Reset()
	for i := range n {
		p.serial++
		value := bytes.Repeat([]byte{byte(p.serial), byte(p.serial >> 8), byte(i)}, size/3+1)[:size]
		if err := p.builder.Add(batch.Record{Value: value, Timestamp: p.appendTime}); err != nil {
			panic(err)
		}
	}
	msg, err := p.builder.Build(nil, batch.BuildOptions{})
	if err != nil {
		panic(err)
	}
	return p.stamp(msg, cut)
}

// control makes a control batch.
func (p *leader) control(cut bool) []byte {
	msg, err := batch.BuildControl(nil, func(c batchcapnp.Control) error {
		trim, err := c.NewTrimTo()
		if err == nil {
			trim.SetOffset(uint64(p.hw))
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return p.stamp(msg, cut)
}

func (p *leader) stamp(msg []byte, cut bool) []byte {
	if cut {
		p.base = p.end
	}
	p.appendTime += 10
	batch.Stamp(msg, batch.Stamps{
		SegmentBase: uint64(p.base), BaseOffset: uint64(p.end), Epoch: p.epoch, AppendTime: p.appendTime,
		Chain: p.chain, CommitHint: uint64(p.hw), PartitionTag: testTag,
	})
	h, err := batch.ParseHeader(msg)
	if err != nil {
		panic(err)
	}
	p.end, p.chain = partition.Offset(h.NextOffset()), batch.NextChain(msg)
	return msg
}

// follow has the leader go on where a log ends.
func (p *leader) follow(t Tail) {
	p.end, p.base, p.chain = t.End, t.SegmentBase, t.Chain
	p.epoch = max(1, uint64(t.LastEpoch)) + 1
	p.appendTime = max(p.appendTime, t.LastAppendTime)
}

func mustOpen(t testing.TB, fsys vfs.FS, ev Evidence) (*Log, Recovery) {
	t.Helper()
	l, r, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag}, ev)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l, r
}

func mustAppend(t testing.TB, l *Log, batches ...[]byte) {
	t.Helper()
	if err := l.Append(batches); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func mustSync(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Sync(); err != nil {
		t.Fatalf("Sync: %v", err)
	}
}

// contents reads a log through Scan.
func contents(l *Log) ([][]byte, error) {
	var out [][]byte
	err := l.Scan(l.Start(), func(_ batch.Header, msg []byte) error {
		out = append(out, bytes.Clone(msg))
		return nil
	})
	return out, err
}

// readAll reads a log through Read in chunks of maxBytes.
func readAll(l *Log, from, limit partition.Offset, maxBytes int) ([]byte, error) {
	var out bytes.Buffer
	for from < limit {
		c, err := l.Read(from, limit, maxBytes)
		if err != nil {
			return nil, err
		}
		n, err := c.WriteTo(&out)
		if err := errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
		if n != int64(c.Len()) || n == 0 || c.NextOffset <= from {
			return nil, fmt.Errorf("chunk of %d bytes from %d to %d sent %d", c.Len(), from, c.NextOffset, n)
		}
		from = c.NextOffset
	}
	return out.Bytes(), nil
}

func wantKind(t testing.TB, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("%s: %v, want %s", what, err, kind)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func baseOf(msg []byte) partition.Offset {
	h, err := batch.ParseHeader(msg)
	if err != nil {
		panic(err)
	}
	return partition.Offset(h.BaseOffset)
}

var _ = segment.Clean
