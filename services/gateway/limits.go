package gateway

import (
	"time"

	"github.com/seedqueue/sq/services/gateway/internal/control"
	"github.com/seedqueue/sq/services/gateway/internal/data"
	"github.com/seedqueue/sq/services/gateway/internal/records"
	"github.com/seedqueue/sq/services/gateway/internal/rest"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

const (
	bodyMemoryMin = 64 << 20 // some bodies of the largest size, in and out
	callsMax      = 100_000
	leaseTTLMin   = 2 * time.Second

	// shareOf is the part of the body memory that one client's answers may take: a quarter, so that four slow ones are no one's trouble.
	shareOf = 4
	// httpConnections bounds the open connections of HTTP.
	httpConnections = 4096
	// memoryMessageBytes bounds an answer on the connection in memory: the most a Fetch gives, and what JSON and protobuf add.
	memoryMessageBytes = 64 << 20
	// memoryBuffer is what the connection in memory holds in each direction.
	memoryBuffer = 1 << 20
)

// limits are those of the parts.
type limits struct {
	upstream upstream.Limits
	data     data.Limits
	control  control.Limits
	records  records.Limits
	rest     rest.Limits
}

func defaultLimits() limits {
	return limits{
		upstream: upstream.DefaultLimits(), data: data.DefaultLimits(), control: control.DefaultLimits(), records: records.DefaultLimits(),
		rest: rest.DefaultLimits(),
	}
}
