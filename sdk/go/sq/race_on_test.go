//go:build race

package sq_test

const raceEnabled = true
