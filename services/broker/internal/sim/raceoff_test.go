//go:build !race

package sim

// seedsDefault is how many new seeds a run of the tests takes.
const seedsDefault = 2000
