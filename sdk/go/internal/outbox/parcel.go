package outbox

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// entry is who waits for records of a parcel: a part of an operation, or one record with a callback.
//
// There is one for every record of Go, so it is kept small.
type entry struct {
	op        *Operation
	call      any   // what Config.Deliver gets; nil = nobody asks
	deadline  int64 // nanoseconds since 1970, 0 = none
	first     int32 // place of the first record in the operation
	at        int32 // place of the first record in the parcel
	count     int32
	partition int32 // that was named, -1 = none
}

// parcel is records that go to one partition as one batch: open in a lane's hands, sealed when it is full or its time has come, built when
// it is sent for the first time. Then its bytes change no more, but for the words that name a new session.
type parcel struct {
	builder    *batch.Builder // nil when built
	entries    []entry
	count      int // records
	cost       int // bytes taken from the account
	mapVersion uint32
	opened     time.Time
	urgent     bool  // somebody waits: no lingering
	endless    bool  // an entry has no deadline
	latest     int64 // of the deadlines

	message   *[]byte      // nil until built
	held      bool         // a connection may still read the message: it must not be reused
	ack       Answer       // of the first record
	last      *fault.Error // why the last attempt failed
	internals int          // attempts that failed inside the server
	moved     bool         // its records went to other lanes
	span      trace.Span
}

// append adds a record, whose room is taken. batch.ErrFull: not to this parcel.
func (c *parcel) append(rec *batch.Record, e entry, cost int) error {
	if err := c.builder.Add(*rec); err != nil {
		return err
	}
	e.at = int32(c.count)
	if n := len(c.entries); n > 0 && e.op != nil && c.entries[n-1].op == e.op && c.entries[n-1].first+c.entries[n-1].count == e.first {
		c.entries[n-1].count += e.count
	} else {
		c.entries = append(c.entries, e)
	}
	c.endless = c.endless || e.deadline == 0
	c.latest = max(c.latest, e.deadline)
	c.count++
	c.cost += cost
	return nil
}

// wanted tells whether anybody still waits for it.
func (c *parcel) wanted(now time.Time) bool {
	nanos := now.UnixNano()
	for i := range c.entries {
		e := &c.entries[i]
		if (e.deadline == 0 || nanos < e.deadline) && (e.op == nil || e.op.wanted()) {
			return true
		}
	}
	return false
}

// deadline gives when nobody waits for it any more; zero = never.
func (c *parcel) deadline() time.Time {
	if c.endless || c.latest == 0 {
		return time.Time{}
	}
	return time.Unix(0, c.latest)
}

// begin says to all who wait that an attempt is about to be made; false if the records of some may not be sent, since their callers have
// gone: then none is made.
func (c *parcel) begin() bool {
	for i := range c.entries {
		if op := c.entries[i].op; op != nil && !op.begin() {
			for _, e := range c.entries[:i] {
				if e.op != nil {
					e.op.end(false)
				}
			}
			return false
		}
	}
	return true
}

// end says to all who wait that the attempt has ended; perhaps: without an answer.
func (c *parcel) end(perhaps bool) {
	for i := range c.entries {
		if op := c.entries[i].op; op != nil {
			op.end(perhaps)
		}
	}
}

// repack makes the message again without the records of callers who have gone, and gives how many records are left. None left: it
// stays as it is.
func (c *parcel) repack(build func(*parcel) error) (left int, err error) {
	var reader batch.Reader
	if err := reader.Reset(*c.message); err != nil {
		return 0, fmt.Errorf("take records out of a batch: %w", err)
	}
	before := c.count
	kept := c.entries[:0:0]
	c.builder.Reset()
	c.count = 0
	var rec batch.Record
	for _, e := range c.entries {
		if e.op != nil && !e.op.wanted() {
			continue
		}
		from := e.at
		e.at = int32(c.count)
		for j := range e.count {
			reader.Record(int(from+j), &rec)
			if err := c.builder.Add(rec); err != nil {
				return 0, fmt.Errorf("take records out of a batch: %w", err)
			}
			c.count++
		}
		kept = append(kept, e)
	}
	c.entries = kept
	if c.count == 0 {
		c.count = before
		return 0, nil
	}
	return c.count, build(c)
}

// caller gives the span below which the parcel's own stands: that of the first who waits with one.
func (c *parcel) caller() trace.SpanContext {
	if op := c.entries[0].op; op != nil {
		return op.span
	}
	return trace.SpanContext{}
}

// note tells the callers who wait why an attempt failed.
func (c *parcel) note(err *fault.Error) {
	c.last = err
	for i := range c.entries {
		if op := c.entries[i].op; op != nil {
			op.note(err)
		}
	}
}

// stored answers all who wait.
func (c *parcel) stored(deliver func(call any, a Answer, err error)) {
	for i := range c.entries {
		e := &c.entries[i]
		if e.op != nil {
			e.op.settle(Part{First: int(e.first), Count: int(e.count), Answer: c.ackOf(int(e.at))})
			continue
		}
		if e.call != nil {
			deliver(e.call, c.ackOf(int(e.at)), nil)
		}
	}
}

func (c *parcel) ackOf(i int) Answer {
	ack := c.ack
	if ack.Offset >= 0 {
		ack.Offset += int64(i)
	}
	return ack
}

// failed answers all who wait with an error.
func (c *parcel) failed(deliver func(call any, a Answer, err error), err error) {
	for i := range c.entries {
		e := &c.entries[i]
		if e.op != nil {
			e.op.fail(int(e.first), int(e.count), err)
			continue
		}
		if e.call != nil {
			deliver(e.call, Answer{Offset: -1}, err)
		}
	}
}
