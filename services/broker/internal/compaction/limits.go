package compaction

import "time"

const (
	// retryWait is how long a pass that ended early is not tried again, and retryCorrupt after damage was met.
	retryWait    = 30 * time.Second
	retryCorrupt = time.Hour
)
