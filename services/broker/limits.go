package broker

import (
	"math"
	"time"
)

const (
	nodeIDMax      = math.MaxInt64 // so that it is the same number everywhere
	leaseTTLMin    = 2 * time.Second
	bodyMemoryMin  = 16 << 20 // two batches of the largest size
	journalSizeMin = 1 << 20
	noteTimeout    = 3 * time.Second // for the last word about a failed disk

	// What other brokers send has memory of its own beside body-memory: a part as large, but room for two batches of the largest size.
	peerMemoryPart = 4
	peerMemoryMin  = 16 << 20

	// A pass that takes longer than a year finds nothing in time; a rate below a read a few seconds is none.
	scrubRateMin     = 64 << 10
	scrubRateMax     = 1 << 30
	scrubIntervalMin = time.Second
	scrubIntervalMax = 365 * 24 * time.Hour
	compactRateMax   = 1 << 30
	compactMemoryMax = 16 << 30
	catchUpRateMin   = 1 << 20
	catchUpRateMax   = 16 << 30
	drainTimeoutMax  = 10 * time.Minute
)
