package gateway

import (
	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
)

// Config is what a user sets.
type Config struct {
	NodeID           string       `koanf:"node-id" usage:"name of this gateway, unique among them; empty = the advertised data address"`
	CapnpHost        string       `koanf:"capnp-host" usage:"address to serve the data plane on, host:port"`
	GRPCHost         string       `koanf:"grpc-host" usage:"address to serve gRPC on, host:port"`
	HTTPHost         string       `koanf:"http-host" usage:"address to serve REST, /docs, /livez, /readyz and /version on, host:port"`
	AdvertiseCapnp   string       `koanf:"advertise-capnp" usage:"data address that clients reach this gateway by; empty = the listen address"`
	AdvertiseGRPC    string       `koanf:"advertise-grpc" usage:"gRPC address that clients reach this gateway by; empty = the listen address"`
	AdvertiseHTTP    string       `koanf:"advertise-http" usage:"HTTP address that clients reach this gateway by; empty = the listen address"`
	AutoCreateTopics bool         `koanf:"auto-create-topics" usage:"create a topic with default settings when a producer names a missing one"`
	BodyMemory       config.Bytes `koanf:"body-memory" usage:"memory for the bodies of requests and answers, 64MiB and up; more are refused as overloaded"`
	Calls            int          `koanf:"calls" usage:"calls over gRPC and REST at once, 1 to 100000; more are refused as overloaded"`
	node.Config      `usage-cluster-id:"UUID of the cluster to belong to; empty = the one in etcd" usage-lease-ttl:"how long after its last renewal the gateway counts as gone, 2s to 60s"`
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		CapnpHost: "localhost:6064", GRPCHost: "localhost:6060", HTTPHost: "localhost:6062", BodyMemory: 256 << 20, Calls: 2048,
		Config: node.Defaults("localhost:6069"),
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	if err := c.Check(c.ports(), leaseTTLMin); err != nil {
		return err //nolint:wrapcheck // names the field.
	}
	if c.BodyMemory < bodyMemoryMin {
		return fault.Errorf(fault.Invalid, "body-memory: %v is below %v", c.BodyMemory, config.Bytes(bodyMemoryMin))
	}
	if c.Calls < 1 || c.Calls > callsMax {
		return fault.Errorf(fault.Invalid, "calls: %d is outside 1 to %d", c.Calls, callsMax)
	}
	return nil
}

// Instance is the name that the user gave.
func (c Config) Instance() string { return c.NodeID }

func (c Config) ports() node.Ports {
	return node.Ports{
		Capnp: &node.Port{Host: c.CapnpHost, Advertise: c.AdvertiseCapnp}, GRPC: &node.Port{Host: c.GRPCHost, Advertise: c.AdvertiseGRPC},
		HTTP: &node.Port{Host: c.HTTPHost, Advertise: c.AdvertiseHTTP}, Admin: c.Admin(),
	}
}
