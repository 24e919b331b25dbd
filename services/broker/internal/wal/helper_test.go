package wal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

const (
	testDir = "p/0"
	testTag = segmenttest.Tag
)

// follow has a leader go on where a log ends.
func follow(p *segmenttest.Leader, t Tail) {
	p.End, p.Base, p.Chain = t.End, t.SegmentBase, t.Chain
	p.Epoch = max(1, uint64(t.LastEpoch)) + 1
	p.AppendTime = max(p.AppendTime, t.LastAppendTime)
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

// near keeps a fuzzed offset near those of the log.
func near(o uint64) partition.Offset { return partition.Offset(o % 16) }
