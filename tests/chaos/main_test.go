package chaos

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// programs are built once; read only.
var programs *cluster.Programs //nolint:gochecknoglobals // TestMain has no other way to the tests

func TestMain(m *testing.M) {
	var err error
	if programs, err = cluster.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// failedDisk is what is said about a disk that the test made fail.
var failedDisk = regexp.MustCompile(`input/output error|disk-poisoned`) //nolint:gochecknoglobals // constant pattern

// leases are short, so that a paused process loses its own.
const leaseTTL = 3 * time.Second

// start starts SQ, with the broker's data in a directory, "" = with the rest.
func start(t *testing.T, dataDir string) *cluster.Cluster {
	t.Helper()
	args := arguments()
	if dataDir != "" {
		args["broker"] = append(args["broker"], "--data-dir", dataDir)
	}
	return cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes, Args: args})
}

// arguments are what the programs get, by their names.
func arguments() map[string][]string {
	args := map[string][]string{}
	for _, name := range []string{"coordinator", "broker", "tierer", "gateway"} {
		args[name] = []string{"--lease-ttl", leaseTTL.String()}
	}
	args["broker"] = append(args["broker"], "--use-retired-disk") // the disk is made to fail again and again
	return args
}

// eventually looks until something is reached.
func eventually(t *testing.T, within time.Duration, what string, reached func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
