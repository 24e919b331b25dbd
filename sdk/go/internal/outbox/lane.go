package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
	"github.com/seedqueue/sq/sdk/go/internal/session"
)

// lane is the way of a producer's records to one partition. Callers add records; run, on its own goroutine, sends them.
type lane struct {
	box       *Outbox
	topic     *gateway.Topic // who the topic is; its metadata may be old
	partition int
	op        string // "publish to orders/3"
	starting  sync.Once
	wake      chan struct{} // capacity 1: there is something to do
	answers   chan answer   // room for all that can be outstanding
	mu        struct {
		sync.Mutex
		open      *parcel
		sealed    []*parcel // not yet in the window, in order
		closed    bool
		accepted  int           // records, ever
		completed int           // of them; they complete in order
		changed   chan struct{} // closed when completed grows; nil = nobody waits
	}

	// These are run's own.
	window   session.Window[*parcel]
	pid      uint64 // 0 = none yet
	fresh    bool   // the next session needs a new producer id
	epoch    uint64 // highest seen
	failures int    // attempts since the last that was stored
	retryAt  time.Time
	warned   bool // about weak acks
}

func newLane(p *Outbox, topic *gateway.Topic, partition int) *lane {
	return &lane{
		box: p, topic: topic, partition: partition, op: fmt.Sprintf("publish to %s/%d", p.cfg.Topic, partition),
		wake: make(chan struct{}, 1), answers: make(chan answer, session.Max), epoch: topic.Partitions[partition].Epoch,
	}
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// add puts a record, whose room is taken, into the open parcel.
func (l *lane) add(rec *batch.Record, e entry, cost int, mapVersion uint32) error {
	l.mu.Lock()
	_, err := l.put(rec, e, cost, mapVersion)
	l.mu.Unlock()
	return l.added(err)
}

// addRun puts records, whose room is taken, into the open parcel: record i, which rec holds, and those behind it that have no key, up to
// record to, as long as the parcel takes them: behind it, another partition may be next. It gives how many; rec holds the one that failed.
func (l *lane) addRun(i, to int, at func(i int, into *batch.Record), rec *batch.Record, e entry, mapVersion uint32) (n int, err error) {
	run := rec.Key == nil
	l.mu.Lock()
	for sealed := false; err == nil && !sealed; {
		e.first, e.count = int32(i+n), 1
		if sealed, err = l.put(rec, e, costOf(rec), mapVersion); err != nil {
			break
		}
		if n++; !run || i+n == to {
			break
		}
		if at(i+n, rec); rec.Key != nil {
			break
		}
	}
	l.mu.Unlock()
	return n, l.added(err)
}

// added has the lane run that something was added to.
func (l *lane) added(err error) error {
	if err != nil {
		return fault.Of(l.op, err)
	}
	l.starting.Do(func() {
		if !l.box.start(l) {
			l.abort()
		}
	})
	return nil
}

// put needs mu. sealed: a parcel was full.
func (l *lane) put(rec *batch.Record, e entry, cost int, mapVersion uint32) (sealed bool, err error) {
	if l.mu.closed {
		return false, fault.ErrClosed
	}
	for {
		if open := l.mu.open; open != nil && mapVersion != 0 && open.mapVersion != 0 && mapVersion != open.mapVersion {
			l.seal()
			sealed = true
		}
		if l.mu.open == nil {
			l.mu.open = l.newParcel()
			l.signal()
		}
		open := l.mu.open
		err := open.append(rec, e, cost)
		if errors.Is(err, batch.ErrFull) {
			l.seal()
			sealed = true
			continue
		}
		if err != nil {
			if open.count == 0 {
				l.mu.open = nil
				l.box.builders.Put(open.builder)
			}
			return sealed, err
		}
		open.mapVersion = max(open.mapVersion, mapVersion)
		l.mu.accepted++
		return sealed, nil
	}
}

func (l *lane) newParcel() *parcel {
	p := l.box
	builder, _ := p.builders.Get().(*batch.Builder)
	builder.Reset()
	builder.Limit = min(p.cfg.BatchBytes, l.topic.BatchLimit())
	entries, _ := p.parcels.Get().(*[]entry)
	return &parcel{builder: builder, entries: *entries, opened: p.cfg.Now()}
}

// seal closes the open parcel. It needs mu.
func (l *lane) seal() {
	l.mu.sealed = append(l.mu.sealed, l.mu.open)
	l.mu.open = nil
	l.box.unstick(l.partition)
	l.signal()
}

// hurry ends the lingering of what is there.
func (l *lane) hurry() {
	l.mu.Lock()
	if l.mu.open != nil {
		l.mu.open.urgent = true
	}
	l.mu.Unlock()
	l.signal()
}

// take gives the next parcel to send; without one, wait says when the open one has lingered enough, zero = not by itself.
func (l *lane) take(now time.Time) (next *parcel, wait time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.sealed) == 0 {
		open := l.mu.open
		if open == nil {
			return nil, time.Time{}
		}
		if ripe := open.opened.Add(l.box.cfg.Linger); !open.urgent && now.Before(ripe) {
			return nil, ripe
		}
		l.seal()
	}
	next = l.mu.sealed[0]
	copy(l.mu.sealed, l.mu.sealed[1:])
	l.mu.sealed[len(l.mu.sealed)-1] = nil
	l.mu.sealed = l.mu.sealed[:len(l.mu.sealed)-1]
	return next, time.Time{}
}

// unwanted takes out the waiting parcels for which nobody waits any more, and gives the earliest deadline of the others.
func (l *lane) unwanted(now time.Time) (dead []*parcel, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.mu.sealed[:0]
	for _, c := range l.mu.sealed {
		if !c.wanted(now) {
			dead = append(dead, c)
			continue
		}
		kept = append(kept, c)
		next = earlier(next, c.deadline())
	}
	clear(l.mu.sealed[len(kept):])
	l.mu.sealed = kept
	if open := l.mu.open; open != nil && len(kept) == 0 {
		if !open.wanted(now) {
			dead, l.mu.open = append(dead, open), nil
		} else {
			next = earlier(next, open.deadline())
		}
	}
	return dead, next
}

// earlier gives the earlier of two times, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// complete counts records that have their answer.
func (l *lane) complete(records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.completed += records
	if l.mu.changed != nil {
		close(l.mu.changed)
		l.mu.changed = nil
	}
}

// flush returns when all that was accepted before has its answer.
func (l *lane) flush(ctx context.Context) error {
	l.hurry()
	l.mu.Lock()
	target := l.mu.accepted
	for l.mu.completed < target {
		if l.mu.changed == nil {
			l.mu.changed = make(chan struct{})
		}
		changed := l.mu.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return nil
}

// abort ends the lane: it takes nothing more, and what waits fails. Nothing of the window may be outstanding.
func (l *lane) abort() {
	l.mu.Lock()
	l.mu.closed = true
	rest := l.mu.sealed
	if l.mu.open != nil {
		rest = append(rest, l.mu.open)
	}
	l.mu.sealed, l.mu.open = nil, nil
	l.mu.Unlock()
	l.window.Waiting(func(f *session.Flight[*parcel]) {
		f.Value.last = &fault.Error{Kind: wirecapnp.ErrorKind_canceled, Op: l.op, Err: fault.ErrClosed}
		l.window.Drop(f)
	})
	l.window.Restart(func(*session.Flight[*parcel]) {})
	for f := l.window.Pop(); f != nil; f = l.window.Pop() {
		l.finish(f)
	}
	for _, c := range rest {
		l.answer(c, &fault.Error{Kind: wirecapnp.ErrorKind_canceled, Op: l.op, Err: fault.ErrClosed})
	}
}
