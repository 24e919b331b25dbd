//go:build sqmutant

package mutant

import "sync/atomic"

var removed atomic.Uint32 //nolint:gochecknoglobals // only in builds that look for what a rule is for.

// Is tells whether a rule is removed.
func Is(r Rule) bool { return Rule(removed.Load()) == r && r != None }

// Remove takes a rule away until restore is called.
func Remove(r Rule) (restore func()) {
	removed.Store(uint32(r))
	return func() { removed.Store(uint32(None)) }
}
