package coordinator

import (
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
)

// Config is what a user sets.
type Config struct {
	NodeID        string        `koanf:"node-id" usage:"name of this coordinator, unique among them and kept over restarts; empty = the advertised gRPC address"`
	GRPCHost      string        `koanf:"grpc-host" usage:"address to serve gRPC on, host:port"`
	HTTPHost      string        `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdvertiseGRPC string        `koanf:"advertise-grpc" usage:"gRPC address that others reach this coordinator by; empty = the listen address"`
	DeletedGrace  time.Duration `koanf:"deleted-grace" usage:"how long the brokers of a deleted topic must have been live before its assignments go, 1s to 168h"`
	MovesAtOnce   int           `koanf:"moves-at-once" usage:"how many partitions may change their members at a time, 1 to 1000"`
	DeadAfter     time.Duration `koanf:"dead-after" usage:"how long a broker may be away until its replicas are replaced on others, 1m to 168h; 0 = never"`
	node.Config   `usage-lease-ttl:"how long after its last renewal another coordinator takes over, 1s to 60s"`
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		GRPCHost: "localhost:6260", HTTPHost: "localhost:6262", DeletedGrace: 10 * time.Minute,
		MovesAtOnce: 16, DeadAfter: time.Hour, Config: node.Defaults("localhost:6269"),
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	if err := c.Check(c.ports(), leaseTTLMin); err != nil {
		return err //nolint:wrapcheck // names the field.
	}
	if c.DeletedGrace < deletedGraceMin || c.DeletedGrace > deletedGraceMax {
		return fault.Errorf(fault.Invalid, "deleted-grace: %v is outside %v to %v", c.DeletedGrace, deletedGraceMin, deletedGraceMax)
	}
	if c.MovesAtOnce < 1 || c.MovesAtOnce > movesAtOnceMax {
		return fault.Errorf(fault.Invalid, "moves-at-once: %d is outside 1 to %d", c.MovesAtOnce, movesAtOnceMax)
	}
	if c.DeadAfter != 0 && (c.DeadAfter < deadAfterMin || c.DeadAfter > deadAfterMax) {
		return fault.Errorf(fault.Invalid, "dead-after: %v is neither 0 nor inside %v to %v", c.DeadAfter, deadAfterMin, deadAfterMax)
	}
	return nil
}

// Instance is the name that the user gave.
func (c Config) Instance() string { return c.NodeID }

func (c Config) ports() node.Ports {
	return node.Ports{GRPC: &node.Port{Host: c.GRPCHost, Advertise: c.AdvertiseGRPC}, HTTP: &node.Port{Host: c.HTTPHost}, Admin: c.Admin()}
}
