package faultfs

import (
	"path"
	"strings"
	"time"
)

// Op is a set of operations.
type Op uint16

// The operations. Write includes Writev, Sync includes Datasync, Read includes SendTo.
const (
	Open Op = 1 << iota
	Read
	Write
	Sync
	Truncate
	Allocate
	Remove // and RemoveAll
	Rename // the path is the old name
	Mkdir
	SyncDir
	SyncAll
	List
	Stat
	Lock
	Usage

	Any Op = 1<<iota - 1
)

// Call is one operation as it arrives.
type Call struct {
	// Number counts all calls from 1.
	Number int
	Op     Op
	// Path is as the caller gave it.
	Path string
	// Off and Len are the range of a Read, Write or Allocate; Off is the size of a Truncate.
	Off int64
	Len int
}

// Rule says which calls go wrong, and how.
type Rule struct {
	// Ops are the operations it is about; 0 = Any.
	Ops Op
	// Path is a pattern of path.Match for the whole path, or for its last part where the pattern has no slash; "" = every path.
	Path string
	// From and To are the bytes of a file that a Read or a Write must touch; To 0 = any. A Read gives what lies before them.
	From, To int64
	// First is the first matching call that it hits, counted from 1 since Add; 0 is 1.
	First int
	// Count is how many matching calls it hits from there; 0 = all.
	Count int

	// Err is what the call fails with; nil = it is only delayed.
	Err error
	// Short is how many bytes a Write carries out before Err.
	Short int
	// Delay passes on the clock before anything is done.
	Delay time.Duration
	// Until, if set, holds the call until it is closed: a hung disk.
	Until <-chan struct{}
}

func (r *Rule) matches(c Call) bool {
	if r.Ops != 0 && r.Ops&c.Op == 0 {
		return false
	}
	if r.To > 0 && (c.Op&(Read|Write) == 0 || c.Off >= r.To || c.Off+int64(c.Len) <= r.From) {
		return false
	}
	if r.Path == "" {
		return true
	}
	name := path.Clean(c.Path)
	if !strings.Contains(r.Path, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.Path, name) // Add has checked the pattern
	return ok
}

// Active is a rule in force.
type Active struct {
	fs   *FS
	rule Rule
	seen int // matching calls; guarded by fs.mu
}

// Remove ends the rule.
func (a *Active) Remove() { a.fs.remove(a) }

// Hits tells how many calls it has hit.
func (a *Active) Hits() int {
	a.fs.mu.Lock()
	defer a.fs.mu.Unlock()
	first, last := a.window()
	return max(0, min(a.seen, last)-first+1)
}

// window gives the first and last matching call that the rule hits.
func (a *Active) window() (first, last int) {
	first = max(1, a.rule.First)
	if a.rule.Count == 0 {
		return first, int(^uint(0) >> 1)
	}
	return first, first + a.rule.Count - 1
}
