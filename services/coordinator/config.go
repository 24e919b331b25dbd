package coordinator

import (
	"net"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// Config is what a user sets.
type Config struct {
	NodeID        string        `koanf:"node-id" usage:"name of this coordinator, unique among them and kept over restarts; empty = the advertised gRPC address"`
	Etcd          []string      `koanf:"etcd" usage:"etcd endpoints, comma separated"`
	ClusterID     string        `koanf:"cluster-id" usage:"UUID of the cluster to belong to; empty = the one in etcd, or a new one"`
	Zone          string        `koanf:"zone" usage:"failure zone of this process"`
	GRPCHost      string        `koanf:"grpc-host" usage:"address to serve gRPC on, host:port"`
	HTTPHost      string        `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdminHost     string        `koanf:"admin-host" usage:"address to serve /metrics and pprof on, host:port; empty = nowhere"`
	AdvertiseGRPC string        `koanf:"advertise-grpc" usage:"gRPC address that others reach this coordinator by; empty = the listen address"`
	LogLevel      string        `koanf:"log-level" usage:"least level that is logged" oneof:"debug|info|warn|error"`
	LogFormat     string        `koanf:"log-format" usage:"form of the log" oneof:"text|json"`
	LeaseTTL      time.Duration `koanf:"lease-ttl" usage:"how long after its last renewal another coordinator takes over, 1s to 60s"`
	DeletedGrace  time.Duration `koanf:"deleted-grace" usage:"how long the brokers of a deleted topic must have been live before its assignments go, 1s to 168h"`
}

// Defaults of a Config.
func Defaults() Config {
	return Config{
		Etcd:     []string{"http://localhost:2379"},
		GRPCHost: "localhost:6260", HTTPHost: "localhost:6262", AdminHost: "localhost:6269",
		LogLevel: "info", LogFormat: "text",
		LeaseTTL: 6 * time.Second, DeletedGrace: 10 * time.Minute,
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	for _, address := range []struct {
		field, value string
		optional     bool
	}{
		{"grpc-host", c.GRPCHost, false},
		{"http-host", c.HTTPHost, false},
		{"admin-host", c.AdminHost, true},
		{"advertise-grpc", c.AdvertiseGRPC, true},
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
	if c.LeaseTTL < leaseTTLMin || c.LeaseTTL > leaseTTLMax {
		return fault.Errorf(fault.Invalid, "lease-ttl: %v is outside %v to %v", c.LeaseTTL, leaseTTLMin, leaseTTLMax)
	}
	if c.DeletedGrace < deletedGraceMin || c.DeletedGrace > deletedGraceMax {
		return fault.Errorf(fault.Invalid, "deleted-grace: %v is outside %v to %v", c.DeletedGrace, deletedGraceMin, deletedGraceMax)
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
