package records

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// skipFor is how long a Fetch goes on behind its wait while it passes control records.
const skipFor = 5 * time.Second

// Fetch implements datav1.DataServiceServer.
func (s *Service) Fetch(ctx context.Context, req *datav1.FetchRequest) (*datav1.FetchResponse, error) {
	r, err := s.newReading(req)
	if err != nil {
		return nil, err
	}
	topic, err := s.topic(ctx, req.GetNamespace(), req.GetTopic(), nil)
	if err != nil {
		return nil, err
	}
	r.topic = topic
	reader, done := s.reader()
	r.reader = reader
	defer func() { done(r.clean) }()
	if r.at, err = s.position(ctx, reader, topic, req); err != nil {
		return nil, err
	}
	r.ends = make([]bool, len(r.at.Positions))
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return &datav1.FetchResponse{Records: r.records, NextCursor: s.sealer().Seal(r.at), EndReached: r.atEnd()}, nil
}

// newReading checks the limits of a request.
func (s *Service) newReading(req *datav1.FetchRequest) (*reading, error) {
	l := s.cfg.Limits
	r := &reading{service: s, clean: true, maxRecords: int(l.DefaultRecords), maxBytes: int(l.DefaultBytes)}
	if n := req.GetMaxRecords(); n < 0 || n > l.FetchRecords {
		return nil, fault.Errorf(fault.Invalid, "max_records: %d is outside 0 to %d", n, l.FetchRecords)
	} else if n > 0 {
		r.maxRecords = int(n)
	}
	if n := req.GetMaxBytes(); n < 0 || n > l.FetchBytes {
		return nil, fault.Errorf(fault.Invalid, "max_bytes: %d is outside 0 to %d", n, l.FetchBytes)
	} else if n > 0 {
		r.maxBytes = int(n)
	}
	if wait := req.GetWaitTime(); wait != nil {
		if wait.CheckValid() != nil || wait.AsDuration() < 0 || wait.AsDuration() > l.Wait {
			return nil, fault.Errorf(fault.Invalid, "wait_time: it is outside 0 to %s", l.Wait)
		}
		r.wait = wait.AsDuration()
	}
	return r, nil
}

// reading is one Fetch under way.
type reading struct {
	service    *Service
	reader     *upstream.Caller
	topic      topology.Topic
	at         cursor.Cursor
	ends       []bool // of each position: its broker said that nothing lies behind
	clean      bool   // no answer of the reader's is outstanding for long
	maxRecords int
	maxBytes   int
	wait       time.Duration

	records []*datav1.Record
	bytes   int
	blocked bool // lost data lies where the next Fetch begins
	decoder batch.Reader
}

func (r *reading) full() bool { return len(r.records) >= r.maxRecords || r.bytes >= r.maxBytes }

func (r *reading) atEnd() bool {
	for _, end := range r.ends {
		if !end {
			return false
		}
	}
	return true
}

// run reads what is there, and waits where nothing is.
func (r *reading) run(ctx context.Context) error {
	clock := r.service.cfg.Clock
	started := clock.Now()
	until := started.Add(r.wait)
	for {
		before := r.progress()
		if err := r.pass(ctx); err != nil {
			return err
		}
		now := clock.Now()
		some, more := len(r.records) > 0, !r.atEnd() && r.progress() > before
		switch {
		case ctx.Err() != nil || r.blocked || r.full():
			return nil //nolint:nilerr // what was read until then is given.
		case some && more && now.Sub(started) < r.service.cfg.Limits.Slice:
			continue // an answer of a broker ends where its segment does
		case some:
			return nil
		case more && now.Sub(until) < skipFor:
			continue // control records only, so far
		case !now.Before(until):
			return nil
		}
		if err := r.await(ctx, until.Sub(now)); err != nil || len(r.records) > 0 {
			return err
		}
	}
}

// progress grows with every offset that was passed.
func (r *reading) progress() uint64 {
	sum := uint64(0)
	for _, p := range r.at.Positions {
		sum += uint64(p.Offset)
	}
	return sum
}

// answer of one position.
type answer struct {
	fetched *fetched
	err     error
}

// pass goes once over all positions, from the one whose turn it is, some at a time, until the limits are reached. A position that has no
// answer now is passed over, as long as there are others; data that is lost ends the pass.
func (r *reading) pass(ctx context.Context) error {
	n := len(r.at.Positions)
	first := r.at.First
	var failed error
	for done := 0; done < n && !r.full(); {
		wave := min(r.service.cfg.Limits.Parallel, n-done)
		answers := make([]chan answer, wave)
		share := uint32(max(r.maxBytes-r.bytes, 1)/wave + 1)
		for i := range wave {
			answers[i] = make(chan answer, 1)
			position := r.at.Positions[(first+done+i)%n]
			go func() {
				fetched, err := r.fetchSoon(ctx, position, share)
				answers[i] <- answer{fetched, err}
			}()
		}
		skipped, err := r.takeAll(answers, first+done)
		if err != nil || r.blocked {
			return err
		}
		if failed == nil {
			failed = skipped
		}
		done += wave
	}
	if len(r.records) > 0 {
		return nil
	}
	return failed
}

// takeAll takes a wave's answers in order. skipped is of a position that may answer later; err of one whose data is lost: where records
// were read before it, they are given and the next Fetch begins with it (blocked).
func (r *reading) takeAll(answers []chan answer, first int) (skipped, err error) {
	n := len(r.at.Positions)
	for i, ch := range answers {
		a := <-ch
		position := (first + i) % n
		if a.err != nil {
			r.ends[position] = false
			if fault.KindOf(a.err).Retryable() {
				skipped = r.explain(position, a.err)
				continue
			}
		}
		if err != nil || r.blocked || r.full() {
			if a.fetched != nil {
				a.fetched.release()
			}
			continue
		}
		if a.err != nil {
			err = r.explain(position, a.err)
		} else {
			err = r.take(position, a.fetched)
			a.fetched.release()
		}
		if err != nil && len(r.records) > 0 {
			err, r.blocked, r.at.First = nil, true, position
		}
	}
	return skipped, err
}

// await waits for the first record at any position.
func (r *reading) await(ctx context.Context, left time.Duration) error {
	n := len(r.at.Positions)
	if n > 1 {
		left = min(left, r.service.cfg.Limits.Slice)
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	type at struct {
		position int
		answer   answer
	}
	answers := make(chan at, n)
	for i, position := range r.at.Positions {
		go func() {
			fetched, err := r.fetch(wait, position, uint32(r.maxBytes), left)
			answers <- at{i, answer{fetched, err}}
		}()
	}
	var failed error
	for range n {
		a := <-answers
		switch {
		case a.answer.err != nil:
			if failed == nil && wait.Err() == nil {
				failed = r.explain(a.position, a.answer.err)
				cancel()
			}
		case failed == nil && !r.full():
			failed = r.take(a.position, a.answer.fetched)
			a.answer.fetched.release()
			if len(r.records) > 0 || failed != nil {
				cancel()
			}
		default:
			a.answer.fetched.release()
		}
	}
	if ctx.Err() != nil && n == 1 {
		r.clean = false // the broker may go on waiting for as long as it was asked to
	}
	if len(r.records) > 0 || ctx.Err() != nil {
		return nil
	}
	return failed
}

// take moves a position over an answer and keeps its records as the limits allow. The error is about data that cannot be read.
func (r *reading) take(position int, f *fetched) error {
	p := &r.at.Positions[position]
	p.Epoch = max(p.Epoch, f.epoch)
	r.ends[position] = false
	for msg, err := range batch.Each(f.body) {
		if err != nil {
			return r.damaged(position, f.next, err)
		}
		h, err := batch.ParseHeader(msg)
		if err != nil {
			return r.damaged(position, f.next, err)
		}
		if h.IsControl() || h.NextOffset() <= uint64(p.Offset) {
			p.Offset = max(p.Offset, partition.Offset(h.NextOffset()))
			continue
		}
		if err := r.decoder.Reset(msg); err != nil {
			return r.damaged(position, partition.Offset(h.NextOffset()), err)
		}
		if r.takeBatch(p, h); r.full() && p.Offset < partition.Offset(h.NextOffset()) {
			r.turn(position)
			return nil
		}
		p.Offset = partition.Offset(h.NextOffset())
		if r.full() {
			r.turn(position)
			r.ends[position] = !f.cold && p.Offset >= f.highWatermark
			return nil
		}
	}
	p.Offset = max(p.Offset, f.next)
	r.ends[position] = !f.cold && p.Offset >= f.highWatermark
	return nil
}

// turn lets the next answer begin behind a position.
func (r *reading) turn(position int) { r.at.First = (position + 1) % len(r.at.Positions) }

// takeBatch keeps the records of the decoder's batch from the position on.
func (r *reading) takeBatch(p *cursor.Position, h batch.Header) {
	var rec batch.Record
	for i := range r.decoder.Len() {
		offset := r.decoder.Offset(i)
		if offset < uint64(p.Offset) {
			continue
		}
		if r.full() {
			return
		}
		r.decoder.Record(i, &rec)
		size := sizeOf(&rec)
		if len(r.records) > 0 && r.bytes+size > r.maxBytes {
			r.bytes = r.maxBytes // no room for this one: full
			return
		}
		r.records = append(r.records, toRecord(&rec, p.Partition, offset, h.AppendTime))
		r.bytes += size
		p.Offset = partition.Offset(offset + 1)
	}
}
