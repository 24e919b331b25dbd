package allinone

import (
	"time"

	"github.com/seedqueue/sq/libs/fault"
)

// Config is what a user sets.
type Config struct {
	// Brokers is how many, BrokersMax at most.
	Brokers int
	// ClusterID to belong to; empty = the one in the store, or a new one.
	ClusterID string
	// CapnpHost, GRPCHost and HTTPHost are where the gateway listens, host:port.
	CapnpHost, GRPCHost, HTTPHost string
	// AdminHost serves /metrics and pprof of all services; empty = nowhere.
	AdminHost string
	// AutoCreateTopics makes a topic on its first use.
	AutoCreateTopics bool
	// SyncPolicy of the brokers: every-batch, an interval, or none.
	SyncPolicy string
	// LeaseTTL of all services.
	LeaseTTL time.Duration
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		Brokers: 1, CapnpHost: "localhost:6064", GRPCHost: "localhost:6060", HTTPHost: "localhost:6062", AdminHost: "localhost:6069",
		AutoCreateTopics: true, SyncPolicy: "every-batch", LeaseTTL: 6 * time.Second,
	}
}

// Validate names the first field that is wrong, and what is legal. The services validate what is theirs.
func (c Config) Validate() error {
	if c.Brokers < 1 || c.Brokers > BrokersMax {
		return fault.Errorf(fault.Invalid, "brokers: %d is outside 1 to %d", c.Brokers, BrokersMax)
	}
	return nil
}
