package journal

import "fmt"

// Limits bounds a journal; zero fields mean the default.
type Limits struct {
	// CheckpointBytes is the room for records behind the live state: when it is used up, a file with the live state only takes over. The
	// room is at least as large as the live state. Default 1 MiB, at least 4 KiB.
	CheckpointBytes int64
	// PendingBytes bounds what was Put and not yet written; a Put beyond it does the Sync. Default 1 MiB.
	PendingBytes int
}

// Bounds of the ring.
const (
	// MinRingBytes and MaxRingBytes bound the size of a ring.
	MinRingBytes = 64 << 10
	MaxRingBytes = 16 << 30
	// MaxGroupBytes bounds the data of a group, MaxGroupEntries the logs that it is of.
	MaxGroupBytes   = 8 << 20
	MaxGroupEntries = 8 << 10

	ringBlock      = 4 << 10 // groups begin at multiples of it
	maxHeaderBytes = (groupHeaderBytes + 2*MaxGroupEntries*entryBytes + ringBlock - 1) / ringBlock * ringBlock
	scanBytes      = 1 << 20
)

const (
	defaultCheckpointBytes = 1 << 20
	defaultPendingBytes    = 1 << 20
	minCheckpointBytes     = 4 << 10
	// maxFileBytes bounds what Open reads: 16 million records.
	maxFileBytes = 1 << 30
	// maxFaults bounds the corrupt ranges of one replica.
	maxFaults = 256
)

func (l Limits) withDefaults() (Limits, error) {
	if l.CheckpointBytes == 0 {
		l.CheckpointBytes = defaultCheckpointBytes
	}
	if l.PendingBytes == 0 {
		l.PendingBytes = defaultPendingBytes
	}
	if l.CheckpointBytes < minCheckpointBytes || l.CheckpointBytes > maxFileBytes/4 || l.PendingBytes < 0 {
		return l, fmt.Errorf("journal limits: checkpoint bytes %d must be within [%d, %d], pending bytes %d must not be negative",
			l.CheckpointBytes, minCheckpointBytes, maxFileBytes/4, l.PendingBytes)
	}
	return l, nil
}
