package model

import (
	"os"
	"reflect"
	"strconv"
	"testing"
)

// steps of a run: enough for some elections, crashes and a blackout.
const steps = 1200

// seeds is how many runs a test makes; SQ_MODEL_SEEDS asks for more.
func seeds(t *testing.T, few int) int {
	t.Helper()
	if many := os.Getenv("SQ_MODEL_SEEDS"); many != "" {
		n, err := strconv.Atoi(many)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return few
}

func TestNoSeedViolates(t *testing.T) {
	n, acks := seeds(t, 6000), 0
	stats := map[string]int{}
	for seed := range n {
		r := Run(uint64(seed), "", steps, true)
		if r.Violation != "" {
			t.Fatalf("seed %d: %s", seed, r.Violation)
		}
		acks += r.Acks
		for k, v := range r.Stats {
			stats[k] += v
		}
	}
	t.Logf("%d seeds, %d acks, %v", n, acks, stats)
	for _, rare := range []string{
		"activate", "blackout", "crash-inside", "fsyncfail", "nack-cut", "ragged", "reconfigure", "repair", "rot", "wipe",
	} {
		if stats[rare] == 0 {
			t.Errorf("no run had a %s: the model is blind", rare)
		}
	}
}

// witnesses are seeds that show what each rule is for. Found by TestSearch.
func witnesses() map[string]uint64 {
	return map[string]uint64{
		"no-fence-quorum": 4, "choose-by-length": 730, "accept-stale-append": 164, "ack-before-fsync": 2,
		"leader-counts-itself-before-fsync": 18, "ack-before-activation": 164, "no-epoch-start": 26, "unguarded-activation": 1742,
		"fence-new-members-only": 32, "base-from-electing": 40, "truncate-to-hw": 4, "match-whole-log": 10774, "count-stale-acks": 21184,
		"uncapped-hw": 10774, "cut-at-corruption": 104, "wiped-disk-keeps-identity": 3396, "retry-fsync-after-EIO": 30,
		"trust-pagecache-after-restart": 56, "stale-durable-mark-after-truncate": 3404, "cut-before-rewrite": 1210, "redo-without-void": 409,
		"truncate-without-barrier": 409, "mark-not-reset": 144, "recycle-without-sync": 28, "no-commit-hint": 2613, "suspect-counts": 138,
		"ragged-forgotten": 138, "redo-only-what-differs": 6982,
	}
}

func TestEveryRuleIsNeeded(t *testing.T) {
	seed := witnesses()
	for _, mutant := range Mutants() {
		s, ok := seed[mutant]
		if _, byHand := directed()[mutant]; byHand {
			continue
		}
		if !ok {
			t.Errorf("%s: no seed shows what it is for", mutant)
			continue
		}
		if r := Run(s, mutant, steps, true); r.Violation == "" {
			t.Errorf("%s: seed %d no longer catches it", mutant, s)
		}
		if r := Run(s, "", steps, true); r.Violation != "" {
			t.Errorf("seed %d: %s without a mutant", s, r.Violation)
		}
	}
}

func TestARunIsAFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := Run(seed, "", steps, true), Run(seed, "", steps, true); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v, then %v", seed, a, b)
		}
	}
}

// TestSearch finds the first seed that catches the mutant SQ_MODEL_MUTANT, up to SQ_MODEL_SEEDS.
func TestSearch(t *testing.T) {
	mutant := os.Getenv("SQ_MODEL_MUTANT")
	if mutant == "" {
		return
	}
	for seed := range seeds(t, 0) {
		if r := Run(uint64(seed), mutant, steps, true); r.Violation != "" && Run(uint64(seed), "", steps, true).Violation == "" {
			t.Logf("%s: seed %d: %s", mutant, seed, r.Violation)
			return
		}
	}
	t.Errorf("%s: no seed catches it", mutant)
}
