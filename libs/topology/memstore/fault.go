package memstore

import (
	"errors"
	"sort"

	"github.com/seedqueue/sq/libs/topology"
)

var (
	errClosed   = errors.New("store is closed")
	errInjected = errors.New("fault injected")
)

// Method names a call of the store.
type Method string

// Methods.
const (
	Get       Method = "get"
	List      Method = "list"
	Txn       Method = "write transaction"
	Watch     Method = "watch"
	Grant     Method = "grant lease"
	KeepAlive Method = "renew lease"
	Revoke    Method = "revoke lease"
)

// Call is what a fault rule looks at. Key is a Txn's first key, and empty for leases.
type Call struct {
	Method Method
	Key    string
}

// String gives the call as an error's operation.
func (c Call) String() string {
	if c.Key == "" {
		return string(c.Method)
	}
	return string(c.Method) + " " + c.Key
}

// Fault says how a call fails.
type Fault uint8

// Faults.
const (
	None Fault = iota
	// Unavailable fails the call with nothing done.
	Unavailable
	// Ambiguous applies a Txn and then fails it; other calls fail as by Unavailable.
	Ambiguous
)

// SetFaults makes every later call ask the rule how to fail; nil ends the faults. The rule is called under the store's lock: it must not
// call the store.
func (s *Store) SetFaults(rule func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rule = rule
}

// SetUnavailable makes all calls fail and all watches silent, or ends that.
func (s *Store) SetUnavailable(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rule = nil
	s.mu.held = down
	if down {
		s.mu.rule = func(Call) Fault { return Unavailable }
	}
	s.signal()
}

// HoldWatches keeps events from all watches, or lets them go.
func (s *Store) HoldWatches(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held = held
	s.signal()
}

// BreakWatches ends all watches that are open with ErrUnavailable.
func (s *Store) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.watches {
		w.broken = topology.Unavailable("watch "+w.prefix, errInjected)
	}
	s.signal()
}

// Compact forgets the changes up to and with a revision.
func (s *Store) Compact(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact(min(revision, s.mu.revision))
	s.signal()
}

func (s *Store) compact(revision int64) {
	if revision <= s.mu.compacted {
		return
	}
	s.mu.compacted = revision
	keep := sort.Search(len(s.mu.history), func(i int) bool { return s.mu.history[i].Revision > revision })
	s.mu.history = append([]topology.Events(nil), s.mu.history[keep:]...)
}
