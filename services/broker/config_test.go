package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/services/broker"
)

// A wrong setting is named, with what is legal.
func TestConfigNamesWhatIsWrong(t *testing.T) {
	good := broker.Defaults()
	good.NodeID = 1
	if err := good.Validate(); err != nil {
		t.Fatalf("the defaults with a node id: %v", err)
	}
	for text, spoil := range map[string]func(*broker.Config){
		"node-id: 0 is outside 1 to":              func(c *broker.Config) { c.NodeID = 0 },
		"data-dir: is empty":                      func(c *broker.Config) { c.DataDir = "" },
		`capnp-host: "6164" is not host:port`:     func(c *broker.Config) { c.CapnpHost = "6164" },
		`http-host: "" is not host:port`:          func(c *broker.Config) { c.HTTPHost = "" },
		`admin-host: "x" is not host:port`:        func(c *broker.Config) { c.AdminHost = "x" },
		`advertise-capnp: "x" is not host:port`:   func(c *broker.Config) { c.AdvertiseCapnp = "x" },
		`advertise-http: "x" is not host:port`:    func(c *broker.Config) { c.AdvertiseHTTP = "x" },
		`cluster-id: "x" is not a UUID`:           func(c *broker.Config) { c.ClusterID = "x" },
		`sync-policy: sync policy "sometimes"`:    func(c *broker.Config) { c.SyncPolicy = "sometimes" },
		`journal: "sometimes": want auto, always`: func(c *broker.Config) { c.Journal = "sometimes" },
		"journal-size: 64KiB is outside 1MiB to":  func(c *broker.Config) { c.JournalSize = 64 << 10 },
		"drain-timeout: 1h0m0s is outside":        func(c *broker.Config) { c.DrainTimeout = time.Hour },
		"body-memory: 1MiB is below 16MiB":        func(c *broker.Config) { c.BodyMemory = 1 << 20 },
		"scrub-rate: 1KiB is outside 64KiB":       func(c *broker.Config) { c.ScrubRate = 1 << 10 },
		"compact-rate: 1KiB is outside 64KiB":     func(c *broker.Config) { c.CompactRate = 1 << 10 },
		"compact-memory: 0 is outside 1MiB":       func(c *broker.Config) { c.CompactMemory = 0 },
		"catch-up-rate: 1KiB is outside 1MiB":     func(c *broker.Config) { c.CatchUpRate = 1 << 10 },
		"scrub-interval: 0s is outside 1s":        func(c *broker.Config) { c.ScrubInterval = 0 },
		"lease-ttl: 1s is outside 2s to 1m0s":     func(c *broker.Config) { c.LeaseTTL = time.Second },
		"lease-ttl: 1h0m0s is outside 2s to 1m0s": func(c *broker.Config) { c.LeaseTTL = time.Hour },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}
