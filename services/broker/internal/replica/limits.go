package replica

import (
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
	tickActive     = 100 * time.Millisecond // how often a replica with waiting work wants a tick
	retryWait      = 200 * time.Millisecond // between attempts to read an assignment, or to write to a full disk
	unreadableWait = 30 * time.Second       // before a segment that could not be read is read again
	housekeeping   = time.Second            // between looks at retention
	overloadWait   = 50 * time.Millisecond  // the retry hint of Overloaded
	// segmentBytesDefault is where segments are cut if the topic does not say.
	segmentBytesDefault = 128 << 20
	groupBytesMax       = 8 << 20
	harvestKeys         = 1000 // collectable keys in one harvest
	tableEntries        = 1000 // segments in one part of a tier table
)

func (l Limits) withDefaults() (Limits, error) {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&l.QueueBatches, 4096)
	set(&l.QueueBytes, 64<<20)
	set(&l.GroupBytes, 4<<20)
	set(&l.GroupBatches, 1024)
	set(&l.FetchBytes, 8<<20)
	for _, v := range []struct {
		name     string
		v        int
		from, to int
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
