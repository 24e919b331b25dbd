package topology

import (
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
)

// Unavailable makes the error of a read or a renewal that the store did not answer: errors.Is(err, ErrUnavailable), kind fault.Unavailable.
func Unavailable(op string, cause error) error { return unanswered(fault.Unavailable, op, cause) }

// Unknown makes the error of a write that the store did not answer, so that it may have been applied: errors.Is(err, ErrUnavailable), kind
// fault.OutcomeUnknown.
func Unknown(op string, cause error) error { return unanswered(fault.OutcomeUnknown, op, cause) }

func unanswered(kind fault.Kind, op string, cause error) error {
	err := ErrUnavailable
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	return &fault.Error{Kind: kind, Op: op, Err: err}
}
