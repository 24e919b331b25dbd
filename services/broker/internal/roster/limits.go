package roster

import "time"

const (
	workersPerDisk = 16   // goroutines in the disk's blocking calls
	openFilesMax   = 1024 // idle segment files that stay open
	openingMax     = 16   // replicas that recover at a time
	activatingMax  = 64   // compare-and-swaps at a time
	tickEvery      = 100 * time.Millisecond
	marksEvery     = time.Second // how old the journal's marks get
	retryEvery     = 30 * time.Second
	retireAfter    = 10 * time.Minute // a replica has been out of use before its data is deleted

	// Files of dropped segments that are kept to be written again: each of so many bytes at least, all together at most, and at most this
	// part of the disk.
	poolFileBytes = 1 << 20
	poolBytesMax  = 1 << 30
	poolPart      = 64
	poolEvery     = 100 * time.Millisecond // how often it is seen whether the disk needs the pool's room
)
