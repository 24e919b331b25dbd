package coordinator

import "time"

const (
	leaseTTLMin = time.Second
	// replicasDefault of a new topic that does not say, where there are as many brokers.
	replicasDefault = 3

	movesAtOnceMax = 1000
	deadAfterMin   = time.Minute
	deadAfterMax   = 7 * 24 * time.Hour

	deletedGraceMin = time.Second
	deletedGraceMax = 7 * 24 * time.Hour

	// messageBytesMax bounds a gRPC request.
	messageBytesMax = 1 << 20
	// callsPerConnection bounds what one gateway has in work.
	callsPerConnection = 256
	// callTimeout bounds a call that brings no deadline of its own.
	callTimeout = 30 * time.Second
	// namespaceRetry is the wait before the default namespace is made again.
	namespaceRetry = 500 * time.Millisecond
)
