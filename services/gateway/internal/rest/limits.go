package rest

import "time"

// Limits of HTTP.
type Limits struct {
	BodyBytes    int           // of a JSON request
	RecordBytes  int           // of a record posted as it is
	LineBytes    int           // of a line of a stream
	ChunkRecords int           // lines stored at a time
	ChunkBytes   int           // bytes of lines stored at a time
	Linger       time.Duration // how long a chunk that is not full waits for the next line
	JSONDepth    int
	BodyTime     time.Duration // for a whole body, and for the next line of a stream
	AnswerTime   time.Duration // for a client to take an answer, or an event
	WaitSlice    time.Duration // how long one of the calls waits that a long poll is made of
	WaitMax      time.Duration // of a long poll
	Heartbeat    time.Duration // between two events or comments of a stream
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		BodyBytes:    12 << 20,
		RecordBytes:  8 << 20,
		LineBytes:    12 << 20,
		ChunkRecords: 1000,
		ChunkBytes:   256 << 10,
		Linger:       5 * time.Millisecond,
		JSONDepth:    64,
		BodyTime:     30 * time.Second,
		AnswerTime:   30 * time.Second,
		WaitSlice:    2 * time.Second,
		WaitMax:      time.Minute,
		Heartbeat:    15 * time.Second,
	}
}
