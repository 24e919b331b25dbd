package catalog

import (
	"time"
)

// What a topic may be.
const (
	NameBytesMax      = 200
	PartitionsMax     = 10_000
	SegmentBytesMin   = 64 << 10
	SegmentBytesMax   = 1 << 30
	BatchBytesMin     = 1 << 10
	BatchBytesMax     = 8 << 20
	DurationMin       = time.Second
	DurationMax       = 100 * 365 * 24 * time.Hour
	RequestIDBytesMax = 64
	PageSizeDefault   = 100
	PageSizeMax       = 1000
)

// What a topic is where nothing is said.
const (
	PartitionsDefault    = 1
	SegmentBytesDefault  = 128 << 20
	SegmentAgeDefault    = time.Hour
	BatchBytesMaxDefault = 1 << 20
)

const (
	// partitionsPerTxn keeps a Txn within etcd's 128 operations and 1.5 MiB.
	partitionsPerTxn = 100
	// requestTTL is how long a request id is remembered.
	requestTTL = time.Hour
	// freshWait is how long a read waits for the watch before it reads everything itself.
	freshWait = 250 * time.Millisecond
	// triesMax bounds how often a lost race is run again.
	triesMax = 8
)
