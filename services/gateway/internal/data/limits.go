package data

import (
	"time"

	"github.com/seedqueue/sq/proto/frame"
)

// Limits of the data plane.
type Limits struct {
	Connections     int           // open at once
	Unauthenticated int           // of them before Hello
	InFlight        int           // unanswered requests of a connection
	MessageBytes    int           // of a request without its body
	BodyBytes       int           // of a publish
	HelloTimeout    time.Duration // from accept to the whole Hello
	StallTimeout    time.Duration // how long a client may send nothing inside a message or body
	WriteTimeout    time.Duration // how long a client may take nothing
	DefaultTimeout  time.Duration // of a request that names none
	MaxTimeout      time.Duration // of any request
	MaxWait         time.Duration // that a fetch may ask for
	FetchBytes      uint32        // most that a fetch may ask for
	Topics          int           // of one Metadata request
	Partitions      int           // of one Metadata answer
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		Connections:     frame.DefaultMaxConnections,
		Unauthenticated: frame.DefaultMaxUnauthenticated,
		InFlight:        frame.DefaultMaxInFlight,
		MessageBytes:    64 << 10,
		BodyBytes:       frame.DefaultMaxBodyBytes,
		HelloTimeout:    frame.DefaultHelloTimeout,
		StallTimeout:    frame.DefaultStallTimeout,
		WriteTimeout:    frame.DefaultWriteTimeout,
		DefaultTimeout:  30 * time.Second,
		MaxTimeout:      5 * time.Minute,
		MaxWait:         time.Minute,
		FetchBytes:      frame.DefaultMaxBodyBytes,
		Topics:          100,
		Partitions:      20_000,
	}
}
