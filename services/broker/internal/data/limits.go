package data

import "time"

// Limits of the data port; those of frames and connections are proto/frame's.
const (
	// fetchBytesDefault is what a fetch returns at most if it does not say.
	fetchBytesDefault = 1 << 20
	// fetchBytesMax is what it returns at most; one whole batch is returned even if larger.
	fetchBytesMax = 8 << 20
	// waitMax bounds a long poll.
	waitMax = time.Minute
	// harvestSegmentsMax bounds the segments in one harvest.
	harvestSegmentsMax = 1024
	// readSealedBytesMax bounds a part of a sealed segment.
	readSealedBytesMax = 8 << 20
	// tableSegmentsMax bounds the entries in one part of a tier table.
	tableSegmentsMax = 1000
	// commitSegmentsMax bounds the segments of one commitTier, collectedKeysMax the keys of one collected.
	commitSegmentsMax = 1024
	collectedKeysMax  = 1024
	// positionsMax bounds the partitions of one positions request.
	positionsMax = 8192
	// keyBytesMax bounds a bucket key.
	keyBytesMax = 1024
)
