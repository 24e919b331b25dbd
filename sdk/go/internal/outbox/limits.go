package outbox

import "time"

const (
	// chunkBytes is how much of a long list of records is buffered before it waits for room again.
	chunkBytes = 1 << 20
	// recordCost is what a buffered record or header takes beside its bytes.
	recordCost     = 64
	requestTimeout = 30 * time.Second // of one attempt
	answerGrace    = 5 * time.Second  // an answer later than this behind its deadline: the connection is given up
	refreshTimeout = 5 * time.Second  // of a look at the metadata; the lane has other work
	internalTries  = 3                // a server's own failure is tried again so often
)
