package replica

import (
	"cmp"
	"fmt"
	"time"
)

// FetchBytesDefault is what a fetch returns at most if it does not say.
const FetchBytesDefault = 1 << 20

// Limits bounds what a replica holds; zero fields mean the default.
type Limits struct {
	QueueBatches int // published and not yet answered; default 4096
	QueueBytes   int // the same in bytes; default 64 MiB
	GroupBytes   int // appended as one group, but for a single batch; default 4 MiB
	GroupBatches int // default 1024
	FetchBytes   int // a fetch gives at most; default 8 MiB
}

const (
	tickActive          = 100 * time.Millisecond // how often a replica with waiting work wants a tick
	retryWait           = 200 * time.Millisecond // between attempts to read an assignment, or to write to a full disk
	unreadableWait      = 30 * time.Second       // before a segment that could not be read is read again
	housekeeping        = time.Second            // between looks at retention
	overloadWait        = 50 * time.Millisecond  // the retry hint of Overloaded
	segmentBytesDefault = 128 << 20              // where segments are cut if the topic does not say
	groupBytesMax       = 8 << 20
	aheadBytes          = 128 << 10 // that are written while the group before is synced
	harvestKeys         = 1000      // collectable keys in one harvest
	tableEntries        = 1000      // segments in one part of a tier table
)

func (l Limits) withDefaults() (Limits, error) {
	l.QueueBatches = cmp.Or(l.QueueBatches, 4096)
	l.QueueBytes = cmp.Or(l.QueueBytes, 64<<20)
	l.GroupBytes = cmp.Or(l.GroupBytes, 4<<20)
	l.GroupBatches = cmp.Or(l.GroupBatches, 1024)
	l.FetchBytes = cmp.Or(l.FetchBytes, 8<<20)
	for _, v := range []struct {
		name        string
		v, from, to int
	}{
		{"queue batches", l.QueueBatches, 1, 1 << 20},
		{"queue bytes", l.QueueBytes, 1 << 10, 1 << 32},
		{"group bytes", l.GroupBytes, 1 << 10, groupBytesMax},
		{"group batches", l.GroupBatches, 1, 1 << 16},
		{"fetch bytes", l.FetchBytes, 1 << 10, 64 << 20},
	} {
		if v.v < v.from || v.v > v.to {
			return l, fmt.Errorf("replica limits: %s %d must be within [%d, %d]", v.name, v.v, v.from, v.to)
		}
	}
	return l, nil
}
