package outbox

import (
	"fmt"
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
		results []Result
		open    int   // without an answer
		out     int   // parts that are being sent
		perhaps bool  // an attempt of a part had no answer
		gone    bool  // the caller has gone while nothing could be stored: nothing may be sent any more
		left    bool  // the caller has gone; the results are its own
		last    error // why the last attempt failed
	}
}

// Result is the fate of one record: Err nil = stored.
type Result struct {
	Answer

	Err      error
	answered bool
}

func newOperation(n int, span trace.SpanContext) *Operation {
	op := &Operation{Done: make(chan struct{}), span: span}
	op.mu.results, op.mu.open = make([]Result, n), n
	for i := range op.mu.results {
		op.mu.results[i].Offset = -1
	}
	return op
}

// fail ends records with an error.
func (op *Operation) fail(first, count int, err error) {
	op.settle(first, count, func(r *Result, _ int) { r.Err = err })
}

// settle ends records; set is called with the result of each and its place.
func (op *Operation) settle(first, count int, set func(r *Result, i int)) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.left {
		return
	}
	for i := range count {
		r := &op.mu.results[first+i]
		set(r, i)
		r.answered = true
	}
	if op.mu.open -= count; op.mu.open == 0 {
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
	for i := range op.mu.results {
		if r := &op.mu.results[i]; !r.answered {
			r.Err = err
		}
	}
	return true
}

// Leave hands the results to the caller.
func (op *Operation) Leave() []Result {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.left = true
	return op.mu.results
}
