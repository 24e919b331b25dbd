package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/durability"
)

// A power cut at any moment leaves a partition whose acks do not wait for a sync readable and writable: a prefix of what was acknowledged is there,
// seals and retention go on, and it happens again.
func TestPowerCutOfRelaxedTopics(t *testing.T) {
	for name, set := range map[string]func(*rig){
		"relaxed":  func(g *rig) { g.topic.Durability = topology.DurabilityRelaxed },
		"interval": func(g *rig) { g.sync = durability.Policy{Interval: time.Second} },
		"none":     func(g *rig) { g.sync = durability.Policy{None: true} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				rng := rand.New(rand.NewPCG(seed, 1))
				g := newRig(t, set, func(g *rig) { g.topic.SegmentBytes = 4 << 10 }).start()
				var acked []string
				for life := range 4 {
					for i := range rng.IntN(30) {
						value := fmt.Sprintf("%d/%d/%d", seed, life, i)
						g.mustPublish(value)
						acked = append(acked, value)
						switch rng.IntN(12) {
						case 0:
							g.seal()
						case 1:
							g.tick(time.Second)
						case 2:
							evidence, _ := g.r.Evidence()
							if err := g.journal.Put(evidence...); err != nil {
								t.Fatal(err)
							}
							if err := g.journal.Sync(); err != nil {
								t.Fatal(err)
							}
						}
					}
					survivors := []*memfs.FS{g.mem.CrashNone(), g.mem.CrashAll(), g.mem.Crash(rng)}
					g.mem = survive(g, survivors[rng.IntN(3)])
					g.start()
					got := valuesOf(g.read(0))
					if len(got) > len(acked) || !slices.Equal(got, acked[:len(got)]) {
						t.Fatalf("seed %d, life %d: acknowledged %d, read %d, which are no prefix", seed, life, len(acked), len(got))
					}
					acked = got
				}
				last := g.mustPublish("last").LastOffset
				g.await(func(s State) bool { return s.HighWatermark > last })
				if s := g.seal(); s.SealedEnd <= last {
					t.Fatalf("seed %d: sealed up to %d, the last record is at %d", seed, s.SealedEnd, last)
				}
				g.kill()
			}
		})
	}
}

// What a power cut has taken of a relaxed topic is told: the epoch that goes on without it says so, and who has read further hears it.
func TestLossIsTold(t *testing.T) {
	g := newRig(t, func(g *rig) { g.sync = durability.Policy{None: true} }).start()
	for range 10 {
		g.mustPublish("a")
	}
	evidence, _ := g.r.Evidence()
	if err := g.journal.Put(evidence...); err != nil {
		t.Fatal(err)
	}
	if err := g.journal.Sync(); err != nil {
		t.Fatal(err)
	}
	before := g.r.State().HighWatermark
	g.mem = survive(g, g.mem.CrashNone())
	g.start()
	s := g.r.State()
	if s.HighWatermark >= before || !s.Lossy {
		t.Fatalf("%d of %d are left, lossy: %v", s.HighWatermark, before, s.Lossy)
	}
	if err := g.fetchError(before); !fault.Is(err, fault.Diverged) {
		t.Errorf("a reader that has read further: %v", err)
	}
	if got := g.counter("sq_broker_lost_offsets_total"); got < 9 {
		t.Errorf("%v offsets are told as lost", got)
	}
	g.mustPublish("b")
	// The next epoch loses nothing, and what was lost is in the log for good.
	g.stop()
	g.start()
	if s := g.r.State(); s.Lossy {
		t.Error("a start that lost nothing says it did")
	}
}

func (g *rig) counter(name string) float64 {
	g.t.Helper()
	families, err := g.metrics.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	g.t.Fatalf("no metric %s", name)
	return 0
}
