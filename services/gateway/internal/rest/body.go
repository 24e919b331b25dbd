package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
)

const (
	// step is how much of a body is reserved and read at a time.
	step = 64 << 10
	// budgetWait is how long a body waits for room.
	budgetWait = 50 * time.Millisecond
	// retryAfter is the hint where there is none.
	retryAfter = time.Second
)

// readBody reads a body of at most most bytes, reserving them as they arrive. release gives the reservation back; it is never nil.
func readBody(ctx context.Context, budget frame.Budget, r *http.Request, most int) (data []byte, release func(), err error) {
	reserved := 0
	release = func() { budget.Release(reserved) }
	if r.ContentLength > int64(most) {
		return nil, release, tooLarge(most)
	}
	for {
		if len(data) == cap(data) { // doubling, each part reserved before it is there
			more := max(step, min(cap(data), most+1-len(data)))
			if err := reserve(ctx, budget, more); err != nil {
				return nil, release, err
			}
			reserved += more
			data = append(make([]byte, 0, cap(data)+more), data...)
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > most:
			return nil, release, tooLarge(most)
		case errors.Is(err, io.EOF):
			return data, release, nil
		case err != nil:
			return nil, release, fault.Errorf(fault.Invalid, "read request body: %w", err)
		}
	}
}

func reserve(ctx context.Context, budget frame.Budget, n int) error {
	ctx, cancel := context.WithTimeout(ctx, budgetWait)
	defer cancel()
	if err := budget.Reserve(ctx, n); err != nil {
		return &fault.Error{Kind: fault.Overloaded, Op: "read request body", Err: frame.ErrOverBudget, RetryAfter: retryAfter}
	}
	return nil
}

func tooLarge(most int) error {
	return fault.Errorf(fault.TooLarge, "the request body is larger than %d bytes", most)
}
