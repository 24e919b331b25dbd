package compaction

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// pass is one pass over a partition, in its own goroutine.
type pass struct {
	h    *Host
	plan compact.Plan

	commit    func(ctx context.Context, seal sealed.Seal) error
	keys      *compact.Keys
	full      partition.Offset
	tombstone int64
}

func (p *pass) run(ctx context.Context) error {
	if err := p.onDisk(func() error { return p.h.Log.DiscardCompacted() }); err != nil {
		return err
	}
	p.keys = compact.NewKeys(p.h.Turn.Memory(), p.plan.From)
	for _, s := range p.plan.Learn {
		if err := p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) {
			p.keys.Learn(h, msg)
			return true, nil
		}, nil); err != nil {
			return err
		}
	}
	p.full = p.keys.Full()
	for _, s := range p.plan.Rewrite {
		if err := p.compact(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// compact rewrites a segment if anything in it is to go.
func (p *pass) compact(ctx context.Context, s compact.Segment) error {
	looker := compact.NewRewriter(p.keys, p.plan.TombstonesBefore, nil)
	goes := false
	err := p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) {
		goes = looker.Look(h, msg)
		return !goes, nil
	}, nil)
	if err != nil {
		return err
	}
	if !goes {
		p.waits(looker.Stats().Tombstone)
		return nil
	}
	var file *wal.Compacted
	if err := p.onDisk(func() (err error) { file, err = p.h.Log.Compacted(s.Base); return err }); err != nil {
		return err
	}
	seal, changed, err := p.rewrite(ctx, s, file)
	if err != nil || !changed {
		if left := p.onDisk(file.Abandon); err == nil {
			err = left
		}
		return err
	}
	return fault.Wrap("commit a compacted segment", p.commit(ctx, seal))
}

// rewrite fills the file of a compacted segment and makes it durable.
func (p *pass) rewrite(ctx context.Context, s compact.Segment, file *wal.Compacted) (seal sealed.Seal, changed bool, err error) {
	writer := compact.NewRewriter(p.keys, p.plan.TombstonesBefore, file.Append)
	written := int64(0)
	err = p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) { return true, writer.Add(h, msg) }, func() (int64, error) {
		n := file.Size() - written
		written += n
		return n, file.Sync()
	})
	if err != nil {
		return seal, false, err
	}
	if err := p.onDisk(writer.Finish); err != nil {
		return seal, false, err
	}
	stats := writer.Stats()
	p.waits(stats.Tombstone)
	if !stats.Changed() {
		return seal, false, nil
	}
	seal = sealed.Seal{Base: s.Base, End: s.End}
	err = p.onDisk(func() error {
		size, sum, err := file.Finish()
		seal.Size, seal.SHA256 = uint64(size), sum
		return err
	})
	m := p.h.Metrics
	m.written.Add(float64(stats.BytesOut))
	m.records.Add(float64(stats.RecordsIn - stats.RecordsOut))
	return seal, true, err
}

// waits takes in that a segment has tombstones which are too young to go.
func (p *pass) waits(tombstone int64) {
	if tombstone != 0 && (p.tombstone == 0 || tombstone < p.tombstone) {
		p.tombstone = tombstone
	}
}

// scan visits the batches of a segment, a slice at a time, as fast as the disk's turn allows. behind is called on the worker at the end of each
// slice and gives what else was read or written; nil = nothing.
func (p *pass) scan(ctx context.Context, s compact.Segment, visit func(*batch.Header, []byte) (bool, error), behind func() (int64, error)) error {
	turn := p.h.Turn
	slice, enough := turn.Slice(), false
	for next := s.Base; next < s.End && !enough; {
		var bytes int64
		err := p.onDisk(func() (err error) {
			read := int64(0)
			next, err = p.h.Log.ScanSegment(s.Base, next, func(h batch.Header, msg []byte) (bool, error) {
				more, err := visit(&h, msg)
				enough = !more
				read += int64(len(msg))
				return more && read < slice, err
			})
			p.h.Metrics.read.Add(float64(read))
			bytes = read
			if err == nil && behind != nil {
				var n int64
				n, err = behind()
				bytes += n
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := turn.Wait(ctx, bytes); err != nil {
			return fault.Wrap("compact", err)
		}
	}
	return nil
}

// onDisk has a piece of work done by a bulk worker and waits for it.
func (p *pass) onDisk(work func() error) error {
	done := make(chan error, 1)
	p.h.Bulk(func() { done <- work() })
	return <-done
}
