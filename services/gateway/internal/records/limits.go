package records

import "time"

// Limits of requests.
type Limits struct {
	Records        int           // of one Publish
	FetchRecords   int32         // most that one Fetch gives
	FetchBytes     int32         // most that one Fetch gives
	DefaultRecords int32         // where a Fetch does not say
	DefaultBytes   int32         // where a Fetch does not say
	Wait           time.Duration // most that a Fetch waits
	Slice          time.Duration // how long one of several partitions is waited for at a time
	Parallel       int           // partitions read at once when there is something to read
	KeyBytes       int           // of an Idempotency-Key
	IdleReaders    int           // sets of connections kept for the next Fetch
}

// DefaultLimits are those of production, and of the API's documentation.
func DefaultLimits() Limits {
	return Limits{
		Records:        10_000,
		FetchRecords:   10_000,
		FetchBytes:     8 << 20,
		DefaultRecords: 1000,
		DefaultBytes:   1 << 20,
		Wait:           time.Minute,
		Slice:          time.Second,
		Parallel:       8,
		KeyBytes:       255,
		IdleReaders:    64,
	}
}
