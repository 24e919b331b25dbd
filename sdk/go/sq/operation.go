package sq

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// operation is a call that waits for the answers of its records.
type operation struct {
	done chan struct{}     // closed when all have their answer
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

func newOperation(n int, span trace.SpanContext) *operation {
	op := &operation{done: make(chan struct{}), span: span}
	op.mu.results, op.mu.open = make([]Result, n), n
	for i := range op.mu.results {
		op.mu.results[i].Offset = -1
	}
	return op
}

// fail ends records with an error.
func (op *operation) fail(first, count int, err error) {
	op.settle(first, count, func(r *Result, _ int) { r.Err = err })
}

// settle ends records; set is called with the result of each and its place.
func (op *operation) settle(first, count int, set func(r *Result, i int)) {
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
		close(op.done)
	}
}

// begin says that a part is about to be sent; false if it may not be.
func (op *operation) begin() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.gone {
		return false
	}
	op.mu.out++
	return true
}

// end says that an attempt of a part has ended; perhaps: without an answer.
func (op *operation) end(perhaps bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.out--
	op.mu.perhaps = op.mu.perhaps || perhaps
}

// wanted tells whether the caller still waits.
func (op *operation) wanted() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return !op.mu.left
}

// note keeps why an attempt failed, for the error that the end of the context gives.
func (op *operation) note(err error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.last = err
}

// giveUp ends what has no answer, since the caller's context has ended: certainly not stored if nothing is being sent and every attempt was
// refused, else unknown. False if all have their answer.
func (op *operation) giveUp(what string, cause error) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.open == 0 {
		return false
	}
	err := &Error{Kind: KindOf(cause), Op: what, Err: cause}
	if op.mu.last != nil {
		err.Err = fmt.Errorf("%w; last attempt: %w", cause, op.mu.last)
	}
	if op.mu.out > 0 || op.mu.perhaps {
		err.Kind = KindOutcomeUnknown
	}
	op.mu.gone, op.mu.left = err.Kind != KindOutcomeUnknown, true
	for i := range op.mu.results {
		if r := &op.mu.results[i]; !r.answered {
			r.Err = err
		}
	}
	return true
}

// leave hands the results to the caller, with the first error among them.
func (op *operation) leave() ([]Result, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.mu.left = true
	for i := range op.mu.results {
		if err := op.mu.results[i].Err; err != nil {
			return op.mu.results, err
		}
	}
	return op.mu.results, nil
}
