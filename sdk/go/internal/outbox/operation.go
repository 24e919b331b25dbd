package outbox

import (
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Operation is a call that waits for the answers of its records.
type Operation struct {
	// Done is closed when all have their answer.
	Done chan struct{}
	span trace.SpanContext // the caller's
	mu   struct {
		sync.Mutex
		n       int    // records
		parts   []Part // that have their answer
		open    int    // records without one
		out     int    // parts that are being sent
		perhaps bool   // an attempt of a part had no answer
		gone    bool   // the caller has gone while nothing could be stored: nothing may be sent any more
		left    bool   // the caller has gone; the results are its own
		last    error  // why the last attempt failed
	}
}

// Part is the fate of records that follow each other: Err nil = stored, the first at Answer.Offset and the others behind it.
type Part struct {
	Answer

	Err          error
	First, Count int
}

func newOperation(n int, span trace.SpanContext) *Operation {
	op := &Operation{Done: make(chan struct{}), span: span}
	op.mu.n, op.mu.open = n, n
	return op
}

// fail ends records with an error.
func (op *Operation) fail(first, count int, err error) {
	op.settle(Part{First: first, Count: count, Answer: Answer{Offset: -1}, Err: err})
}

// settle ends records.
func (op *Operation) settle(p Part) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.left {
		return
	}
	op.mu.parts = append(op.mu.parts, p)
	if op.mu.open -= p.Count; op.mu.open == 0 {
		close(op.Done)
	}
}

// begin says that a part is about to be sent; false if it may not be.
func (op *Operation) begin() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.gone {
		return false
	}
	op.mu.out++
	return true
}

// end says that an attempt of a part has ended; perhaps: without an answer.
func (op *Operation) end(perhaps bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.out--
	op.mu.perhaps = op.mu.perhaps || perhaps
}

// wanted tells whether the caller still waits.
func (op *Operation) wanted() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return !op.mu.left
}

// note keeps why an attempt failed, for the error that the end of the context gives.
func (op *Operation) note(err error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.last = err
}

// GiveUp ends what has no answer, since the caller's context has ended: certainly not stored if nothing is being sent and every attempt was
// refused, else unknown. False if all have their answer.
func (op *Operation) GiveUp(what string, cause error) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.open == 0 {
		return false
	}
	err := fault.OfContext(what, cause)
	if op.mu.last != nil {
		err.Err = fmt.Errorf("%w; last attempt: %w", cause, op.mu.last)
	}
	if op.mu.out > 0 || op.mu.perhaps {
		err.Kind = wirecapnp.ErrorKind_outcomeUnknown
	}
	op.mu.gone, op.mu.left = err.Kind != wirecapnp.ErrorKind_outcomeUnknown, true
	slices.SortFunc(op.mu.parts, func(a, b Part) int { return a.First - b.First })
	at := 0
	for _, p := range append(op.mu.parts[:len(op.mu.parts):len(op.mu.parts)], Part{First: op.mu.n}) {
		if at < p.First {
			op.mu.parts = append(op.mu.parts, Part{First: at, Count: p.First - at, Answer: Answer{Offset: -1}, Err: err})
		}
		at = p.First + p.Count
	}
	return true
}

// Leave hands the results to the caller, of each record one, in no order.
func (op *Operation) Leave() []Part {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.left = true
	return op.mu.parts
}
