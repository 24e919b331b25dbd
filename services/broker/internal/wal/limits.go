package wal

import (
	"fmt"

	"github.com/seedqueue/sq/libs/segment"
)

// Limits bounds what a log takes; zero fields mean the default.
type Limits struct {
	// UnsyncedBytes is how much may be written and not durable before Append syncs by itself. Default and most: segment.Window.
	UnsyncedBytes int64
	// IndexBytes is how much of an open segment becomes durable before its index is written again: what a kill leaves to be read of it,
	// at the next Open, is hardly more. Default segment.Window.
	IndexBytes int64
	// OpenFiles is how many files a log without shared Files keeps open while nobody uses them. Default 16.
	OpenFiles int
}

const (
	defaultOpenFiles = 16
	// runBytes is the most that goes into one write; a larger append takes several.
	runBytes = 8 << 20
	// keptFrames bounds the scratch memory that an idle log keeps, in batches.
	keptFrames = 32
	// keptSnapshots is how many snapshots stay when their segments are dropped.
	keptSnapshots = 2
)

func (l Limits) withDefaults() (Limits, error) {
	if l.UnsyncedBytes == 0 {
		l.UnsyncedBytes = segment.Window
	}
	if l.IndexBytes == 0 {
		l.IndexBytes = segment.Window
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = defaultOpenFiles
	}
	if l.UnsyncedBytes < 0 || l.UnsyncedBytes > segment.Window || l.OpenFiles < 0 || l.IndexBytes < 0 {
		return l, fmt.Errorf("log limits: unsynced bytes %d must be within [0, %d], open files %d and index bytes %d must not be negative",
			l.UnsyncedBytes, segment.Window, l.OpenFiles, l.IndexBytes)
	}
	return l, nil
}
