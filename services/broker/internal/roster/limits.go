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
)
