package herald

import "time"

const (
	// busyEvery is how often a report is repeated that a coordinator must act on; quietEvery, any other. What is 10 s old it forgets.
	busyEvery  = 2 * time.Second
	quietEvery = 5 * time.Second
	// lookEvery is how often is looked for what tells of no change by itself: lost replicas, the disk.
	lookEvery = time.Second
	// callTimeout bounds a report; a coordinator that does not answer within it is asked anew.
	callTimeout = 2 * time.Second
	// retryWait is the pause behind a report that failed.
	retryWait = 500 * time.Millisecond
	// stalledAfter is how long a drain may come no nearer to its end.
	stalledAfter = 3 * time.Second
	// suspectsMax and lostMax are what a coordinator takes in a report; more are left out until others are gone.
	suspectsMax = 1000
	lostMax     = 10_000
	// messageBytesMax bounds an answer.
	messageBytesMax = 64 << 10
)
