package disk

import "time"

const (
	// lookEvery: a small disk is full in a second.
	lookEvery = 25 * time.Millisecond
	// remakeWait is the pause after a ballast found no room although the volume has it: a quota.
	remakeWait = 10 * time.Second
	// RetryAfter is the hint that goes with a refusal.
	RetryAfter = time.Second

	// The first mark is the smaller of a tenth and 10 GiB, the second one the smaller of a twentieth and 2 GiB.
	recordsDivisor = 10
	recordsMost    = 10 << 30
	appendsDivisor = 20
	appendsMost    = 2 << 30
	// RefuseMin is the least first mark that may be asked for.
	RefuseMin = 1 << 20

	// The ballast is 64 MiB, and less on a small volume.
	ballastMost    = 64 << 20
	ballastDivisor = 16
	ballastUnit    = 4 << 10
)
