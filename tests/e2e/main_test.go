package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/seedqueue/sq/tests/cluster"
)

// programs are built once; read only.
var programs *cluster.Programs //nolint:gochecknoglobals // TestMain has no other way to the tests

func TestMain(m *testing.M) {
	var err error
	if programs, err = cluster.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// eachShape runs a test on a cluster of each shape, beside other tests: most of them wait most of the time.
func eachShape(t *testing.T, test func(t *testing.T, c *cluster.Cluster)) {
	t.Helper()
	t.Parallel()
	for _, shape := range []cluster.Shape{cluster.AllInOne, cluster.Processes} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			test(t, cluster.Start(t, programs, cluster.Options{Shape: shape}))
		})
	}
}

// coldReads counts what a tierer asked the bucket for, to answer reads.
const coldReads = "sq_tierer_coldread_gets_total"
