//go:build sqmutant

package sim

import (
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
)

// TestMutants removes each rule from the code in turn. Its scenario has to notice, within a second.
func TestMutants(t *testing.T) {
	caught := map[mutant.Rule]bool{}
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			restore := mutant.Remove(c.rule)
			violated := play(t, c)
			restore()
			if violated == "" {
				t.Errorf("nothing notices that the rule is gone")
			}
			if d := time.Since(began); d > time.Second && !testing.Short() {
				t.Logf("it took %v", d)
			}
			t.Logf("%.160s", violated)
			caught[c.rule] = violated != ""
		})
	}
	for r := mutant.None + 1; r < mutant.Last; r++ {
		if !caught[r] {
			t.Errorf("rule %d is not caught by any scenario", r)
		}
	}
}
