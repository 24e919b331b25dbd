package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// TestEtcdDown: partitions that have a leader go on for longer than any lease lasts, and everything comes back with etcd.
func TestEtcdDown(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	flags := []string{"--lease-ttl", lease.String()}
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes, Args: map[string][]string{
		"coordinator": flags, "broker": flags, "tierer": flags, "gateway": flags,
	}})
	c.MustSQ(t, "topic", "create", "orders")
	c.MustSQ(t, "produce", "orders", "0 ")
	c.Kill("etcd")
	want := "0 "
	for down, n := time.Now(), 1; time.Since(down) < 3*lease; n++ {
		value := fmt.Sprint(n, " ")
		c.MustSQ(t, "produce", "orders", value)
		want += value
		if got := string(consume(t, c, "orders")); got != want {
			t.Fatalf("%v after the end of etcd: read %q, want %q", time.Since(down), got, want)
		}
	}
	c.Restart(t, "etcd")
	c.AwaitReady(t)
	eventually(t, 30*time.Second, func() bool { // a lease that ran out is taken anew
		status, _ := c.REST(t, http.MethodPost, "/v1/topics", `{"topic":"later"}`)
		return status == http.StatusOK || status == http.StatusConflict
	}, func() any { return c.Process("coordinator").Log() })
	c.MustSQ(t, "produce", "later", "made after the outage")
	c.MustSQ(t, "produce", "orders", "end")
	if got := string(consume(t, c, "orders")); got != want+"end" {
		t.Errorf("after the outage: read %q, want %q", got, want+"end")
	}
}

// TestS3Down: a read of what only the bucket has says so in words; the rest of the topic goes on; the read works when S3 is back.
func TestS3Down(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes})
	c.MustSQ(t, "topic", "create", "orders")
	c.MustSQ(t, "produce", "orders", "cold ")
	c.MustSQ(t, "topic", "seal", "orders")
	sealed := c.Partition(t, "orders").SealedEnd
	eventually(t, tierTimeout, func() bool { return c.Partition(t, "orders").ExportedEnd >= sealed && sealed > 0 },
		func() any { return c.Partition(t, "orders") })
	c.MustSQ(t, "topic", "trim", "orders", "--local")
	c.Kill("s3")
	c.MustSQ(t, "produce", "orders", "hot")
	hot := []string{"consume", "orders", "--partition", "0", "--from", fmt.Sprint(sealed), "--until-end", "--format", "raw"}
	if got := string(c.MustSQ(t, hot...)); got != "hot" {
		t.Errorf("hot read: %q", got)
	}
	status, body := c.REST(t, http.MethodGet, "/v1/topics/orders/records?from=earliest", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "UNAVAILABLE") {
		t.Errorf("cold read: %d %.300s", status, body)
	}
	c.Restart(t, "s3")
	if got := string(consume(t, c, "orders")); got != "cold hot" {
		t.Errorf("read %q", got)
	}
}
