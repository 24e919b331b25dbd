package commit

import "fmt"

// Mode says when redo is used.
type Mode uint8

// The modes.
const (
	Auto   Mode = iota // for small appends that come together
	Always             // for every append that fits
	Never              // every append syncs its file
)

// ParseMode reads auto, always or never.
func ParseMode(s string) (Mode, error) {
	for m := range Never + 1 {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%q: want auto, always or never", s)
}

// String gives the form that ParseMode reads.
func (m Mode) String() string { return [...]string{"auto", "always", "never"}[m%3] }

// path is the way by which an append becomes durable.
type path uint8

const (
	later  path = iota // a sync of the same log is in flight, or the group is full: the next round decides
	direct             // sync the file
	redo               // copy into the ring
)

// disk is what a round begins with.
type disk struct {
	mode    Mode
	room    int64 // that a group may take in the ring now; 0 = there is no ring
	syncing int   // files that are being synced
	limits  Limits
}

// ask is a log that wants to be durable.
type ask struct {
	bytes int64 // that are neither synced nor in the ring; 0 = not known
	busy  bool  // an earlier sync of it is in flight
}

// plan chooses the path of each. overhead is what an entry takes in the ring beside its bytes.
func plan(d disk, asks []ask, overhead int64) []path {
	paths := make([]path, len(asks))
	small, candidates := d.limits.SmallBytes, 0
	if d.mode == Always {
		small = d.limits.GroupBytes + 1
	}
	for i, a := range asks {
		switch {
		case a.busy:
			paths[i] = later
		case d.mode == Never || d.room == 0 || a.bytes == 0 || a.bytes >= small || a.bytes > d.limits.GroupBytes:
			paths[i] = direct
		default:
			paths[i] = redo
			candidates++
		}
	}
	if d.mode == Auto && candidates == 1 && d.syncing == 0 && !contains(paths, direct) {
		replace(paths, redo, direct)
		return paths
	}
	bytes, entries, used := int64(0), 0, int64(0)
	for i, a := range asks {
		if paths[i] != redo {
			continue
		}
		switch need := a.bytes + overhead; {
		case entries == groupEntries || entries > 0 && bytes+a.bytes > d.limits.GroupBytes:
			paths[i] = later
		case used+need > d.room:
			paths[i] = direct
		default:
			bytes, used, entries = bytes+a.bytes, used+need, entries+1
		}
	}
	return paths
}

func contains(paths []path, p path) bool {
	for _, q := range paths {
		if q == p {
			return true
		}
	}
	return false
}

func replace(paths []path, from, to path) {
	for i := range paths {
		if paths[i] == from {
			paths[i] = to
		}
	}
}
