package coordinator

import "time"

const (
	leaseTTLMin = time.Second
	leaseTTLMax = time.Minute
	// replicasMax: brokers do not replicate yet. Placement, nominations and the epochs' values are for more already.
	replicasMax = 1

	deletedGraceMin = time.Second
	deletedGraceMax = 7 * 24 * time.Hour

	// messageBytesMax bounds a gRPC request.
	messageBytesMax = 1 << 20
	// callsPerConnection bounds what one gateway has in work.
	callsPerConnection = 256
	// callTimeout bounds a call that brings no deadline of its own.
	callTimeout = 30 * time.Second
	// drainTimeout bounds how long a stop waits for calls in work.
	drainTimeout = 10 * time.Second
	// bootstrapRetry is the wait before etcd is asked again for the cluster's identity.
	bootstrapRetry = 500 * time.Millisecond
)
