package broker

import (
	"math"
	"time"
)

const (
	nodeIDMax     = math.MaxInt64 // so that it is the same number everywhere
	leaseTTLMin   = 2 * time.Second
	leaseTTLMax   = time.Minute
	bodyMemoryMin = 16 << 20 // two batches of the largest size

	journalSizeMin = 1 << 20

	// drainTimeout bounds how long a stop waits for what is in flight.
	drainTimeout = 10 * time.Second
	// revokeTimeout bounds how long a stop waits for etcd to take the registration back.
	revokeTimeout = 2 * time.Second
	// etcdRetry is the wait before etcd is asked again at start.
	etcdRetry = 500 * time.Millisecond
)
