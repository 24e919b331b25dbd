package scrub

import "time"

const (
	// windowBytes is read at once; a multiple of alignment.
	windowBytes = 256 << 10
	// alignment of what is read past the page cache.
	alignment = 4 << 10
	// lookEvery bounds how long the list of segments is not looked at: a disk that fills has to be read faster.
	lookEvery    = 10 * time.Minute
	lookLeast    = 100 * time.Millisecond
	lookFraction = 1000 // of Interval
)
