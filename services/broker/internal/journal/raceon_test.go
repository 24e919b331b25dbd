//go:build race

package journal

// raceDetector makes every sample small: races are found by the tests that run beside each other, not by thousands of crash states.
const raceDetector = true
