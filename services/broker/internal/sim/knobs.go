package sim

import (
	"math/rand/v2"
	"time"

	"github.com/seedqueue/sq/services/broker/internal/commit"
)

// knobs are the taste of a run: each seed has its own, so that rare mixtures come up.
type knobs struct {
	nodes, partitions int
	alone             bool // one member
	redo              commit.Mode
	segmentBytes      int64
	segmentAge        time.Duration
	offsets           []time.Duration // of the clocks
	drifts            []int64

	clients, window int
	think, timeout  time.Duration
	retry           time.Duration
	valueBytes      uint64

	latency             time.Duration
	loss, repeat, stray int // in a thousand
	reorder             bool
	step, disk          time.Duration
	etcd                time.Duration
	etcdLoss            int // in a thousand
	marks               time.Duration
	restart             time.Duration

	nominate           time.Duration
	churn, reconfigure int // in a hundred

	faults faultKnobs
	events int // of the part with faults
}

// faultKnobs says how often each fault comes, relative to the others, and how often one comes at all.
type faultKnobs struct {
	every     time.Duration
	weights   [faultKinds]int
	bootCrash int // in a hundred
	moments   int // in a hundred
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// draw makes the knobs of a seed.
func draw(seed uint64) knobs {
	r := rand.New(rand.NewPCG(seed, 99))
	k := knobs{
		nodes: pick(r, 3, 3, 4, 5, 5), partitions: pick(r, 1, 1, 1, 2), redo: pick(r, commit.Auto, commit.Always, commit.Never),
		segmentBytes: pick[int64](r, 2<<10, 8<<10, 1<<20), segmentAge: pick(r, 0, 300*time.Millisecond, 2*time.Second),
		clients: pick(r, 1, 2, 3, 4), window: pick(r, 1, 2, 5), think: pick(r, 5*time.Millisecond, 20*time.Millisecond, 60*time.Millisecond),
		timeout: pick(r, 100*time.Millisecond, time.Second), retry: pick(r, 10*time.Millisecond, 100*time.Millisecond), valueBytes: pick[uint64](r, 8, 100, 1500),
		latency: pick(r, 200*time.Microsecond, time.Millisecond, 5*time.Millisecond), loss: pick(r, 0, 0, 10, 50, 200), repeat: pick(r, 0, 0, 10, 100),
		stray: pick(r, 0, 0, 5, 30), reorder: r.IntN(3) == 0, step: pick(r, 10*time.Microsecond, 200*time.Microsecond),
		disk: pick(r, 50*time.Microsecond, time.Millisecond, 10*time.Millisecond), etcd: pick(r, time.Millisecond, 10*time.Millisecond),
		etcdLoss: pick(r, 0, 0, 20, 200), marks: pick(r, 20*time.Millisecond, time.Second), restart: pick(r, 20*time.Millisecond, 200*time.Millisecond, 2*time.Second),
		nominate: pick(r, 50*time.Millisecond, 300*time.Millisecond), churn: pick(r, 0, 5, 30), reconfigure: pick(r, 0, 0, 20, 60), events: 2500, alone: r.IntN(12) == 0,
	}
	for range k.nodes {
		k.offsets = append(k.offsets, pick(r, 0, 0, time.Hour, -time.Hour))
		k.drifts = append(k.drifts, pick[int64](r, 0, 0, 20, -20))
	}
	k.faults.every = pick(r, 50*time.Millisecond, 200*time.Millisecond, 600*time.Millisecond)
	for i := range k.faults.weights {
		k.faults.weights[i] = pick(r, 0, 1, 1, 3, 8)
	}
	for _, kind := range [...]int{powerAll, etcdAway, loseDisk} {
		k.faults.weights[kind] = pick(r, 0, 0, 1)
	}
	k.faults.bootCrash, k.faults.moments = pick(r, 0, 10, 40), pick(r, 0, 2, 10)
	return k
}
