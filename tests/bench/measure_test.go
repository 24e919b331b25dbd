package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// number gives a setting.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestMeasure measures what SQ_BENCH names.
func TestMeasure(t *testing.T) {
	what := strings.Split(os.Getenv("SQ_BENCH"), ",")
	if what[0] == "" {
		t.Skip("skipped, it measures and proves nothing: set SQ_BENCH, or run tests/bench/cluster.sh")
	}
	programs, err := cluster.Build(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]func(*testing.T, *cluster.Programs){"failover": failover, "rates": rates, "idle": idle}
	for _, name := range what {
		measure, ok := all[name]
		if !ok {
			t.Fatalf("SQ_BENCH: %q is none of failover, rates, idle", name)
		}
		t.Run(name, func(t *testing.T) { measure(t, programs) })
	}
}

// start starts a cluster; network is nil where links cannot be cut.
func start(t *testing.T, programs *cluster.Programs) (c *cluster.Cluster, network *cluster.Network) {
	t.Helper()
	network, err := cluster.NewNetwork(t)
	if err != nil {
		t.Logf("no network of its own: %v", err)
		network = nil
	}
	return cluster.Start(t, programs, cluster.Options{
		Shape: cluster.Processes, Brokers: 3, Coordinators: 2, Gateways: 2, Network: network,
	}), network
}

// distribution says how long many things took.
func distribution(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing"
	}
	slices.Sort(all)
	at := func(p float64) time.Duration {
		return all[min(int(p*float64(len(all))), len(all)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("n %d  min %v  p50 %v  p90 %v  p99 %v  max %v", len(all), at(0), at(0.5), at(0.9), at(0.99), at(1))
}
