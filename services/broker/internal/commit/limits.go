package commit

import "fmt"

// Limits bounds a committer; zero fields mean the default.
type Limits struct {
	// RingBytes is the size of the journal's ring. Default 256 MiB.
	RingBytes int64
	// SmallBytes: an append below it may go to the ring, one of it or above syncs its file. Default 64 KiB.
	SmallBytes int64
	// GroupBytes bounds what one write of the ring takes. Default 4 MiB, and never more than an eighth of the ring.
	GroupBytes int64
	// DirtyLogs is how many logs may have bytes in the ring only, and so a file open, before a checkpoint begins. Default 4096.
	DirtyLogs int
}

const (
	// DefaultRingBytes is the size of a ring.
	DefaultRingBytes = 256 << 20
	groupEntries     = 4 << 10 // of one group
	syncersMax       = 4       // files that a checkpoint syncs at a time
)

func (l Limits) withDefaults() (Limits, error) {
	set := func(v *int64, otherwise int64) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&l.RingBytes, DefaultRingBytes)
	set(&l.SmallBytes, 64<<10)
	set(&l.GroupBytes, 4<<20)
	if l.DirtyLogs == 0 {
		l.DirtyLogs = 4096
	}
	l.GroupBytes = min(l.GroupBytes, l.RingBytes/8)
	if l.RingBytes < 0 || l.SmallBytes < 0 || l.GroupBytes < 0 || l.DirtyLogs < 0 {
		return l, fmt.Errorf("commit limits: %+v: none may be negative", l)
	}
	return l, nil
}
