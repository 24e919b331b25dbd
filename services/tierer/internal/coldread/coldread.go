package coldread

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/tierer/internal/blockcache"
)

// Ledger has the tables: ledger.Ledger.
type Ledger interface {
	Table(id partition.ID) *manifest.Table
	Refresh(ctx context.Context, id partition.ID) (*manifest.Table, error)
}

// Limits of a Reader.
type Limits struct {
	CacheBytes  int64         // of blocks
	FooterBytes int64         // of footers
	Gets        int           // at a time
	GetTimeout  time.Duration // of one
	ReadAhead   int           // blocks behind the one that is read
}

// Config of a Reader.
type Config struct {
	Ledger  Ledger
	Bucket  objstore.Bucket
	Cluster func() partition.UUID
	Limits  Limits
	Metrics *Metrics
}

// Reader reads from the bucket.
type Reader struct {
	cfg     Config
	footers *blockcache.Cache[object, *segment.Footer]
	blocks  *blockcache.Cache[block, []byte]
}

// New makes a reader. The caller closes it.
func New(cfg Config) *Reader {
	r := &Reader{cfg: cfg}
	r.footers = blockcache.New(blockcache.Config[object, *segment.Footer]{
		Bytes: cfg.Limits.FooterBytes, Loads: cfg.Limits.Gets, Load: r.loadFooter, Weigh: weighFooter, Timeout: cfg.Limits.GetTimeout,
	})
	r.blocks = blockcache.New(blockcache.Config[block, []byte]{
		Bytes: cfg.Limits.CacheBytes, Loads: cfg.Limits.Gets, Load: r.loadBlock, Weigh: func(b []byte) int64 { return int64(len(b)) },
		Timeout: cfg.Limits.GetTimeout,
	})
	cfg.Metrics.watch(r.blocks.Stats)
	return r
}

// Close ends what is being loaded.
func (r *Reader) Close() {
	r.blocks.Close()
	r.footers.Close()
}

// Read is whole batches from the bucket. The slices are shared: nobody writes into them.
type Read struct {
	Body       [][]byte
	NextOffset partition.Offset
	Table      *manifest.Table
}

// Fetch gives whole batches from the one that has the offset on, about maxBytes of them, at least one.
func (r *Reader) Fetch(ctx context.Context, id partition.ID, offset partition.Offset, maxBytes int) (Read, error) {
	var read Read
	err := r.withSegment(ctx, id, func(table *manifest.Table) (manifest.Segment, error) { return at(table, offset) },
		func(table *manifest.Table, s manifest.Segment) error {
			body, next, err := r.readBatches(ctx, id, s, offset, maxBytes)
			read = Read{Body: body, NextOffset: next, Table: table}
			return err
		})
	return read, err
}

// at finds the segment with an offset.
func at(table *manifest.Table, offset partition.Offset) (manifest.Segment, error) {
	switch {
	case offset < table.LogStart:
		return manifest.Segment{}, &fault.Error{
			Kind: fault.OffsetTrimmed, Op: "read offset below the log start", Offset: uint64(table.LogStart), Epoch: uint64(table.Epoch),
		}
	case offset >= table.TierEnd:
		return manifest.Segment{}, &fault.Error{
			Kind: fault.OffsetOutOfRange, Op: "read offset above the tier end", Offset: uint64(table.TierEnd), Epoch: uint64(table.Epoch),
		}
	}
	s, _ := table.Find(offset) // a table has no hole between its log start and its tier end
	return s, nil
}

// FindTime gives the first offset whose append time is not below a time (microseconds since 1970); the tier end where there is none.
func (r *Reader) FindTime(ctx context.Context, id partition.ID, micros int64) (partition.Offset, *manifest.Table, error) {
	var found partition.Offset
	var used *manifest.Table
	err := r.withSegment(ctx, id,
		func(table *manifest.Table) (manifest.Segment, error) {
			used = table
			s, ok := table.FindTime(micros)
			if !ok {
				return s, &fault.Error{Kind: fault.OffsetOutOfRange, Op: "find a time behind the tier end"}
			}
			return s, nil
		},
		func(table *manifest.Table, s manifest.Segment) error {
			offset, err := r.findTime(ctx, id, s, micros)
			found = max(offset, table.LogStart)
			return err
		})
	if fault.Is(err, fault.OffsetOutOfRange) {
		return used.TierEnd, used, nil
	}
	return found, used, err
}

// Table gives a table as new as now.
func (r *Reader) Table(ctx context.Context, id partition.ID) (*manifest.Table, error) {
	return r.cfg.Ledger.Refresh(ctx, id) //nolint:wrapcheck // the ledger says what it asked.
}

// withSegment finds a segment by the table that is known and reads it; with a fresh table where that one lacks it or its object is gone.
func (r *Reader) withSegment(
	ctx context.Context, id partition.ID, find func(*manifest.Table) (manifest.Segment, error), read func(*manifest.Table, manifest.Segment) error,
) error {
	if table := r.cfg.Ledger.Table(id); table != nil {
		if s, err := find(table); err == nil {
			if err = read(table, s); !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
	table, err := r.cfg.Ledger.Refresh(ctx, id)
	if err != nil {
		return err //nolint:wrapcheck // the ledger says what it asked.
	}
	s, err := find(table)
	if err != nil {
		return err
	}
	if err = read(table, s); fault.Is(err, fault.NotFound) { // the table names it: that it is not there is damage
		return fault.Errorf(fault.Corrupt, "read segment %d of %s: %w", s.Base, id, err)
	}
	return err
}

// open gives the footer of a segment's object and a reader of its log part.
func (r *Reader) open(ctx context.Context, id partition.ID, s manifest.Segment) (*segment.Footer, *logPart, error) {
	o := object{key: s.KeyIn(r.cfg.Cluster(), id), size: s.Size, objectSize: s.ObjectSize}
	footer, err := r.footers.Get(ctx, o)
	if err != nil {
		return nil, nil, fault.Wrap("read footer", err)
	}
	hi, lo := id.Topic.Halves()
	x := &footer.Index.Summary
	if x.Base != s.Base || x.End != s.End || x.Epoch != s.Epoch || footer.SHA256 != s.SHA256 ||
		x.Tag != batch.PartitionTag(hi, lo, uint32(id.Index)) {
		r.cfg.Metrics.corrupt.Inc()
		return nil, nil, fault.Errorf(fault.Corrupt, "read footer of %s: it is that of segment [%d, %d) of epoch %d", o.key, x.Base, x.End, x.Epoch)
	}
	return footer, &logPart{ctx: ctx, reader: r, object: o}, nil
}

// readBatches gives the batches of a segment from the one that has the offset on.
func (r *Reader) readBatches(
	ctx context.Context, id partition.ID, s manifest.Segment, offset partition.Offset, maxBytes int,
) (body [][]byte, next partition.Offset, err error) {
	footer, log, err := r.open(ctx, id, s)
	if err != nil {
		return nil, 0, err
	}
	from := footer.Index.At(offset)
	// Batches before the one with the offset are only walked over: their bodies stay unchecked and unread.
	var scanner segment.Scanner
	scanner.Reset(log, s.Size, s.Base, footer.Index.Tag, placeOf(from), s.Size)
	start := segment.Place{Offset: s.End, Position: s.Size}
	for scanner.Next() {
		if partition.Offset(scanner.Header().NextOffset()) > offset {
			start = segment.Place{
				Offset: partition.Offset(scanner.Header().BaseOffset), Position: scanner.Position(), Chain: scanner.Header().Chain,
			}
			break
		}
	}
	if err := scanner.Err(); err != nil || start.Position == s.Size {
		return nil, 0, r.broken(log, offset, err)
	}
	log.ahead = true
	scanner.Reset(log, s.Size, s.Base, footer.Index.Tag, start, start.Position)
	end := start
	for scanner.Next() {
		if size := scanner.Place().Position - start.Position; end.Position > start.Position && size > int64(maxBytes) {
			break
		}
		if end = scanner.Place(); end.Position-start.Position >= int64(maxBytes) {
			break
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, 0, r.broken(log, end.Offset, err)
	}
	body, err = log.slices(start.Position, end.Position)
	if err != nil {
		return nil, 0, err
	}
	return body, end.Offset, nil
}

// findTime gives the first batch of a segment with an append time that is not below a time.
func (r *Reader) findTime(ctx context.Context, id partition.ID, s manifest.Segment, micros int64) (partition.Offset, error) {
	footer, log, err := r.open(ctx, id, s)
	if err != nil {
		return 0, err
	}
	var scanner segment.Scanner
	scanner.Reset(log, s.Size, s.Base, footer.Index.Tag, placeOf(footer.Index.Before(micros)), s.Size)
	for scanner.Next() {
		if scanner.Header().AppendTime >= micros {
			return partition.Offset(scanner.Header().BaseOffset), nil
		}
	}
	return 0, r.broken(log, s.End, scanner.Err())
}

func placeOf(e segment.Entry) segment.Place {
	return segment.Place{Offset: e.Offset, Position: e.Position, Unchained: true}
}

// broken is the error of a log part that does not hold what its index promised, or could not be read.
func (r *Reader) broken(log *logPart, offset partition.Offset, err error) error {
	if log.err != nil {
		return fault.Wrap("read "+log.object.key, log.err)
	}
	r.cfg.Metrics.corrupt.Inc()
	if err == nil {
		return fault.Errorf(fault.Corrupt, "read %s: nothing has offset %d", log.object.key, offset)
	}
	return fault.Errorf(fault.Corrupt, "read %s at offset %d: %w", log.object.key, offset, err)
}
