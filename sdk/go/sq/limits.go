package sq

import (
	"time"

	"github.com/seedqueue/sq/proto/batch"
)

// Defaults, and the limits of what options may say.
const (
	// DefaultAddr is where a client looks without an address and without SQ_ADDR.
	DefaultAddr = "localhost:6064"
	// DefaultBudget bounds the bytes that a client buffers.
	DefaultBudget = 64 << 20
	// MinBudget is the smallest budget: one largest batch each way.
	MinBudget = 2 * batch.MaxBytes
	// DefaultLinger is how long a batch of asynchronous records waits for company.
	DefaultLinger = 2 * time.Millisecond
	// MaxLinger bounds that.
	MaxLinger = time.Minute
	// DefaultDeliveryTimeout ends the retries of a record that came without a context.
	DefaultDeliveryTimeout = 2 * time.Minute
	// DefaultReadAhead bounds what one reader holds that its loop has not taken.
	DefaultReadAhead = 16 << 20

	requestTimeout = 30 * time.Second // of one attempt
	backoffMin     = 20 * time.Millisecond
	backoffMax     = 2 * time.Second
	retryAfterMax  = 10 * time.Second // a server's hint counts up to this
	longPoll       = 20 * time.Second // a fetch at the end of the log waits so long for a record
	fetchBytes     = 1 << 20
	placesAtOnce   = 32 // ListOffsets calls when a loop begins
	internalTries  = 3  // a server's own failure is tried again so often
)
