package quorum

import "testing"

// The races that the core has to win, by the numbers of its rules' list. Each is a directed scenario, in which breaking the rule shows.
func TestR01MarkOfACutLog(t *testing.T)         { scenario(t, "testdata/marks_and_truncation.txt") }
func TestR02NoSecondLifeOfAnEpoch(t *testing.T) { scenario(t, "testdata/never_twice.txt") }
func TestR04LateAnswerOfAnotherEpoch(t *testing.T) {
	scenario(t, "testdata/late_append_ok_same_process.txt")
}
func TestR08ActivationOfUnknownResult(t *testing.T) { scenario(t, "testdata/activation.txt") }
