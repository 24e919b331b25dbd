package broker

import (
	"math"
	"time"
)

const (
	nodeIDMax     = math.MaxInt64 // so that it is the same number everywhere
	leaseTTLMin   = 2 * time.Second
	bodyMemoryMin = 16 << 20 // two batches of the largest size
)
