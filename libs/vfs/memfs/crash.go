package memfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// dice decides what survives.
type dice interface {
	// version picks one of n versions, 0 the durable one, n-1 the newest.
	version(n int) int
	// tear tells whether the page is a mix of two versions.
	tear() bool
	// below picks from [0, n).
	below(n int) int
	// happened tells whether an unsynced directory operation did.
	happened() bool
}

// Crash gives the file system as a power cut now may leave it: what was synced, and of the rest what rng says. Locks end.
func (f *FS) Crash(rng *rand.Rand) *FS {
	// Nearly all kept and nearly all lost are where the mistakes are found: one page that is missing, one that is there.
	keep := []float64{0.05, 0.3, 0.5, 0.7, 0.95}[rng.IntN(5)]
	return f.survivor(&random{rng: rng, keep: keep})
}

// CrashNone gives the file system with nothing that was not synced.
func (f *FS) CrashNone() *FS { return f.survivor(fixed(false)) }

// CrashAll gives the file system with everything, synced or not: what a process that was killed leaves.
func (f *FS) CrashAll() *FS { return f.survivor(fixed(true)) }

type random struct {
	rng  *rand.Rand
	keep float64
}

func (r *random) version(n int) int {
	switch {
	case n == 1 || r.rng.Float64() >= r.keep:
		return 0
	case r.rng.IntN(2) == 0:
		return n - 1
	default:
		return 1 + r.rng.IntN(n-1)
	}
}

func (r *random) tear() bool      { return r.rng.IntN(3) == 0 }
func (r *random) below(n int) int { return r.rng.IntN(n) }
func (r *random) happened() bool  { return r.rng.Float64() < r.keep }

// fixed keeps everything or nothing.
type fixed bool

func (k fixed) version(n int) int {
	if k {
		return n - 1
	}
	return 0
}
func (fixed) tear() bool       { return false }
func (fixed) below(int) int    { return 0 }
func (k fixed) happened() bool { return bool(k) }

func (f *FS) survivor(d dice) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := map[*node]map[string]*node{}
	of := func(dir *node) map[string]*node {
		if entries[dir] == nil {
			entries[dir] = maps.Clone(dir.stable)
		}
		return entries[dir]
	}
	for _, op := range f.mu.log {
		if op.durable() || d.happened() {
			op.apply(of)
		}
	}
	out := newFS(f.clock, f.volume.capacity)
	out.mu.root = f.mu.root.survivor(out, of, d, map[*node]*node{})
	return out
}

func (n *node) survivor(out *FS, of func(*node) map[string]*node, d dice, seen map[*node]*node) *node {
	if twin := seen[n]; twin != nil {
		return twin
	}
	twin := &node{dir: n.dir, modTime: n.modTime}
	seen[n] = twin
	if !n.dir {
		twin.content = n.content.survivor(&out.volume, d)
		return twin
	}
	twin.live, twin.stable = map[string]*node{}, map[string]*node{}
	children := of(n)
	for _, name := range slices.Sorted(maps.Keys(children)) {
		child := children[name].survivor(out, of, d, seen)
		twin.live[name], twin.stable[name] = child, child
		child.names++
	}
	return twin
}
