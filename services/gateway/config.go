package gateway

import (
	"net"
	"time"

	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// Config is what a user sets.
type Config struct {
	NodeID           string        `koanf:"node-id" usage:"name of this gateway, unique among them; empty = the advertised data address"`
	Etcd             []string      `koanf:"etcd" usage:"etcd endpoints, comma separated"`
	ClusterID        string        `koanf:"cluster-id" usage:"UUID of the cluster to belong to; empty = the one in etcd"`
	Zone             string        `koanf:"zone" usage:"failure zone of this process"`
	CapnpHost        string        `koanf:"capnp-host" usage:"address to serve the data plane on, host:port"`
	GRPCHost         string        `koanf:"grpc-host" usage:"address to serve gRPC on, host:port"`
	HTTPHost         string        `koanf:"http-host" usage:"address to serve REST, /docs, /livez, /readyz and /version on, host:port"`
	AdminHost        string        `koanf:"admin-host" usage:"address to serve /metrics and pprof on, host:port; empty = nowhere"`
	AdvertiseCapnp   string        `koanf:"advertise-capnp" usage:"data address that clients reach this gateway by; empty = the listen address"`
	AdvertiseGRPC    string        `koanf:"advertise-grpc" usage:"gRPC address that clients reach this gateway by; empty = the listen address"`
	AdvertiseHTTP    string        `koanf:"advertise-http" usage:"HTTP address that clients reach this gateway by; empty = the listen address"`
	AutoCreateTopics bool          `koanf:"auto-create-topics" usage:"create a topic with default settings when a producer names a missing one"`
	BodyMemory       config.Bytes  `koanf:"body-memory" usage:"memory for the bodies of requests and answers, 64MiB and up; more are refused as overloaded"`
	Calls            int           `koanf:"calls" usage:"calls over gRPC and REST at once, 1 to 100000; more are refused as overloaded"`
	LeaseTTL         time.Duration `koanf:"lease-ttl" usage:"how long after its last renewal the gateway counts as gone, 2s to 60s"`
	LogLevel         string        `koanf:"log-level" usage:"least level that is logged" oneof:"debug|info|warn|error"`
	LogFormat        string        `koanf:"log-format" usage:"form of the log" oneof:"text|json"`
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		Etcd:      []string{"http://localhost:2379"},
		CapnpHost: "localhost:6064", GRPCHost: "localhost:6060", HTTPHost: "localhost:6062", AdminHost: "localhost:6069",
		BodyMemory: 256 << 20, Calls: 2048, LeaseTTL: 6 * time.Second,
		LogLevel: "info", LogFormat: "text",
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	for _, address := range []struct {
		field, value string
		optional     bool
	}{
		{"capnp-host", c.CapnpHost, false},
		{"grpc-host", c.GRPCHost, false},
		{"http-host", c.HTTPHost, false},
		{"admin-host", c.AdminHost, true},
		{"advertise-capnp", c.AdvertiseCapnp, true},
		{"advertise-grpc", c.AdvertiseGRPC, true},
		{"advertise-http", c.AdvertiseHTTP, true},
	} {
		if address.value == "" && address.optional {
			continue
		}
		if _, _, err := net.SplitHostPort(address.value); err != nil {
			return fault.Errorf(fault.Invalid, "%s: %q is not host:port", address.field, address.value)
		}
	}
	if _, err := c.cluster(); err != nil {
		return err
	}
	if c.BodyMemory < bodyMemoryMin {
		return fault.Errorf(fault.Invalid, "body-memory: %v is below %v", c.BodyMemory, config.Bytes(bodyMemoryMin))
	}
	if c.Calls < 1 || c.Calls > callsMax {
		return fault.Errorf(fault.Invalid, "calls: %d is outside 1 to %d", c.Calls, callsMax)
	}
	if c.LeaseTTL < leaseTTLMin || c.LeaseTTL > leaseTTLMax {
		return fault.Errorf(fault.Invalid, "lease-ttl: %v is outside %v to %v", c.LeaseTTL, leaseTTLMin, leaseTTLMax)
	}
	return nil
}

// cluster gives the wanted cluster, zero = any.
func (c Config) cluster() (partition.UUID, error) {
	if c.ClusterID == "" {
		return partition.UUID{}, nil
	}
	id, err := partition.ParseUUID(c.ClusterID)
	if err != nil {
		return partition.UUID{}, fault.Errorf(fault.Invalid, "cluster-id: %q is not a UUID", c.ClusterID)
	}
	return id, nil
}
