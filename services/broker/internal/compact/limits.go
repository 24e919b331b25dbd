package compact

import "time"

const (
	// keyCost is what a key takes in memory, the map's own room included: estimated, 16 + 16 bytes at a load of a half and up.
	keyCost = 80
	// MemoryMin is the least that a Turn lets the keys of a pass take.
	MemoryMin = 1 << 20
	// RateMin is the slowest a Turn goes, in bytes a second.
	RateMin = 64 << 10
	// burst is what may be read or written at once before the rate is looked at.
	burst = 256 * time.Millisecond
	// TombstoneAgeDefault is how long a tombstone stays if the topic does not say.
	TombstoneAgeDefault = 24 * time.Hour
)
