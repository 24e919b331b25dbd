package sim

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// number reads a variable of the environment, or gives otherwise.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSeed plays SQ_SIM_SEED again and says what happens.
func TestSeed(t *testing.T) {
	if os.Getenv("SQ_SIM_SEED") == "" {
		return
	}
	r := Run(number(t, "SQ_SIM_SEED", 0), os.Stdout)
	t.Logf("%d events, trace %x\n%s", r.Events, r.Trace, r.Stats)
	if r.Violation != "" {
		t.Fatal(r.Violation)
	}
}

// TestKnownSeeds plays every seed that has found something.
func TestKnownSeeds(t *testing.T) {
	data, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		seed, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if r := Run(seed, nil); r.Violation != "" {
			t.Errorf("seed %d: %.800s\n%s", seed, r.Violation, again(seed))
		}
	}
}

func again(seed uint64) string {
	return "SQ_SIM_SEED=" + strconv.FormatUint(seed, 10) + " go test -count=1 -run 'TestSeed$' -v ./services/broker/internal/sim/"
}

// TestNewSeeds plays seeds that nobody has played: other ones each time. SQ_SIM_SEEDS says how many, SQ_SIM_FIRST from which on. One in a hundred
// is played twice, and has to happen the same way.
func TestNewSeeds(t *testing.T) {
	n := number(t, "SQ_SIM_SEEDS", seedsDefault)
	if testing.Short() {
		n = min(n, 100)
	}
	first := number(t, "SQ_SIM_FIRST", uint64(time.Now().UnixNano())/1000) //nolint:gosec // after 1970.
	began := time.Now()
	var all struct {
		sync.Mutex
		stats  Stats
		events int
	}
	all.stats = Stats{}
	var next atomic.Uint64
	var runners sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		runners.Go(func() {
			for i := next.Add(1) - 1; i < n && !t.Failed(); i = next.Add(1) - 1 {
				seed := first + i
				r := Run(seed, nil)
				if r.Violation != "" {
					t.Errorf("seed %d: %.800s\n%s", seed, r.Violation, again(seed))
				} else if i%100 == 0 && !reflect.DeepEqual(r, Run(seed, nil)) {
					t.Errorf("seed %d happens in two ways\n%s", seed, again(seed))
				}
				all.Lock()
				all.stats.Add(r.Stats)
				all.events += r.Events
				all.Unlock()
			}
		})
	}
	runners.Wait()
	d := time.Since(began)
	t.Logf("%d seeds from %d on, %d events in %v: %.0f seeds/s\n%s", min(n, next.Load()), first, all.events, d.Round(time.Second/10), float64(min(n, next.Load()))/d.Seconds(), all.stats)
	if n >= 1000 && !t.Failed() {
		for _, what := range rare {
			if all.stats[what] == 0 {
				t.Errorf("no run had: %s. The simulation is blind there", what)
			}
		}
	}
}

// rare is what a thousand runs have to show, or they prove less than they seem to.
var rare = [...]string{ //nolint:gochecknoglobals // constant.
	"activation with an unknown result", "died inside a call to the disk", "fault before an activation", "fault after an ack", "fault after a nomination",
	"message whose bytes were gone", "messages that took the long way", "messages repeated", "process gave up: disk-poisoned", "publish: disk-full",
	"reconfigurations", "replica without data refused", "sealed files compared", "lost disk", "power cut of all", "bit rot", "etcd outage",
	"publish: outcome-unknown", "publish: out-of-order", "runs that end unavailable",
}
