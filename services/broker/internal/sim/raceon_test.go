//go:build race

package sim

// seedsDefault is small under the race detector: one thread has no races.
const seedsDefault = 60
