package quorum

import "time"

const (
	// resendAfter is how long an unanswered Prepare, Fetch or Append waits before it is sent again.
	resendAfter = 200 * time.Millisecond
	// resendMax is how long it waits at most, doubling.
	resendMax = 1600 * time.Millisecond
	// mendWait is how long a follower waits for what it lacks of a damaged range before it asks again from its start.
	mendWait = 3 * time.Second
	// raggedWait is how long a candidate waits for all base members when one of them lost an unproven tail.
	raggedWait = 5 * time.Second
	// silenceMax is how long a leader admits batches without having heard from a majority.
	silenceMax = 2 * time.Second
)
