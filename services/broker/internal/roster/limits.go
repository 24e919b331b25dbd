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
	roomEvery      = 25 * time.Millisecond // how often the room on the disk is looked at: a small disk is full in a second
	// A disk with less free than min(fullShare of it, fullBytes) takes no records.
	fullDivisor = 10
	fullBytes   = 10 << 30
)
