package frame

import "time"

// Version is the protocol version this build speaks, both the oldest and the newest.
const Version = 1

// Limits that both sides share. Configurations name their own where they may be changed.
const (
	// HelloMessageBytes bounds a message before Hello is answered.
	HelloMessageBytes = 64 << 10
	// DefaultMaxMessageBytes bounds a message without its body.
	DefaultMaxMessageBytes = 1 << 20
	// DefaultMaxBodyBytes bounds a body: a batch of 8 MiB, or a fetch answer.
	DefaultMaxBodyBytes = 8 << 20
	// DefaultMaxInFlight bounds the unanswered requests of a connection.
	DefaultMaxInFlight = 1024
	// DefaultStallTimeout is how long a peer may send nothing inside a message or a body.
	DefaultStallTimeout = 5 * time.Second
	// DefaultHelloTimeout is how long a new connection may take to say Hello.
	DefaultHelloTimeout = 10 * time.Second
	// DefaultWriteTimeout is how long a peer may take no bytes.
	DefaultWriteTimeout = 30 * time.Second
	// DefaultMaxUnauthenticated bounds the connections that have not said Hello.
	DefaultMaxUnauthenticated = 256
	// DefaultMaxConnections bounds all connections of a server.
	DefaultMaxConnections = 20_000

	// bytesPerSecondMin is the slowest that a message or body may arrive, beyond the stall time.
	bytesPerSecondMin = 16 << 10
	// step is how much of a message or body is reserved and read at least before more is.
	step = 64 << 10
	// readBufferBytes is the read buffer of a connection.
	readBufferBytes = 16 << 10
	// depthLimit and traverseFactor bound what reading a message may cost.
	depthLimit     = 16
	traverseFactor = 4
	traverseMin    = 64 << 10
	// budgetWait is how long a server's connection waits for room in the budget before it answers Overloaded.
	budgetWait = 50 * time.Millisecond
	// retryAfter is the hint of an Overloaded answer.
	retryAfter = 100 * time.Millisecond
	// lingerTimeout is how long a closing side reads on, so that its last answer arrives.
	lingerTimeout = time.Second
	// goAwayGrace is how long a drained connection waits for the client to close it.
	goAwayGrace = time.Second
	// drainFactor times MaxBodyBytes is how large a refused body is still read over; past that the connection is closed.
	drainFactor = 4
	// errorTextBytes bounds the text of an error.
	errorTextBytes = 4096
)
