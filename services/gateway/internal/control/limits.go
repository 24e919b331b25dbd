package control

import "time"

// Limits of the gRPC server and of the calls it makes.
type Limits struct {
	MessageBytes     int           // of a request
	CoordinatorBytes int           // of a coordinator's answer
	HeaderBytes      uint32        // of a call
	Streams          uint32        // calls at once on one connection
	Connections      int           // open at once
	Handshake        time.Duration // from accept to the first call
	Timeout          time.Duration // of a call that brings no deadline
	TimeoutMax       time.Duration // of any call
	RetryFor         time.Duration // how long the active coordinator is looked for
	StateTimeout     time.Duration // how long a leader may take to tell its partition's state
	Leaders          int           // asked at once about one topic
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		MessageBytes:     9 << 20,
		CoordinatorBytes: 64 << 20,
		HeaderBytes:      16 << 10,
		Streams:          256,
		Connections:      4096,
		Handshake:        10 * time.Second,
		Timeout:          30 * time.Second,
		TimeoutMax:       5 * time.Minute,
		RetryFor:         15 * time.Second,
		StateTimeout:     2 * time.Second,
		Leaders:          16,
	}
}
