package sealed

import "time"

const (
	// keyBytesMax bounds a bucket key.
	keyBytesMax = 1024
	// CommitSegmentsMax bounds the segments of one TierCommit, and the keys of one TierDrop or TierCollect.
	CommitSegmentsMax = 1024
	// entriesMax bounds each list of a snapshot that is read back.
	entriesMax = 1 << 20
	// DropGrace is how long an object outlives the TierDrop that names it, for readers that opened it before.
	DropGrace = time.Hour
	// localBytesDefault and localTimeDefault are what a topic keeps locally if it says nothing.
	localBytesDefault = 1 << 30
	localTimeDefault  = time.Hour
)
