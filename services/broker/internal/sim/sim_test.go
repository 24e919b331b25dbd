package sim

import (
	"os"
	"strconv"
	"testing"
)

func TestSeed(t *testing.T) {
	s := os.Getenv("SQ_SIM_SEED")
	if s == "" {
		return
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := Run(seed, os.Stdout)
	t.Logf("%d events, trace %x\n%s", r.Events, r.Trace, r.Stats)
	if r.Violation != "" {
		t.Fatal(r.Violation)
	}
}

func TestSim(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SQ_SIM_SEEDS"))
	if n == 0 {
		n = 100
	}
	first, _ := strconv.ParseUint(os.Getenv("SQ_SIM_FIRST"), 10, 64)
	all := Stats{}
	events := 0
	for seed := first; seed < first+uint64(n); seed++ {
		r := Run(seed, nil)
		all.Add(r.Stats)
		events += r.Events
		if r.Violation != "" {
			t.Errorf("seed %d: %.600s", seed, r.Violation)
		}
	}
	t.Logf("%d events\n%s", events, all)
}
