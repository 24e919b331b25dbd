package node

import (
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// leaseTTLMax: a process that is gone is missed no later.
const leaseTTLMax = time.Minute

// Config is what a user sets of every process. Its service gives lease-ttl the sentence that --help shows.
type Config struct {
	Etcd      []string      `koanf:"etcd" usage:"etcd endpoints, comma separated"`
	ClusterID string        `koanf:"cluster-id" usage:"UUID of the cluster to belong to; empty = the one in etcd, or a new one"`
	Zone      string        `koanf:"zone" usage:"failure zone of this process"`
	AdminHost string        `koanf:"admin-host" usage:"address to serve /metrics and pprof on, host:port; empty = nowhere"`
	LeaseTTL  time.Duration `koanf:"lease-ttl"`
	LogLevel  string        `koanf:"log-level" usage:"least level that is logged" oneof:"debug|info|warn|error"`
	LogFormat string        `koanf:"log-format" usage:"form of the log" oneof:"text|json"`
}

// Defaults of a Config whose admin port is at adminHost.
func Defaults(adminHost string) Config {
	return Config{
		Etcd: []string{"http://localhost:2379"}, AdminHost: adminHost, LeaseTTL: 6 * time.Second, LogLevel: "info", LogFormat: "text",
	}
}

// Common gives the Config to package process, which sees it embedded.
func (c Config) Common() Config { return c }

// Check names the first of these settings and of the ports' that is wrong, and what is legal. A lease may be as short as leaseTTLMin.
func (c Config) Check(ports Ports, leaseTTLMin time.Duration) error {
	if err := ports.check(); err != nil {
		return err
	}
	if _, err := c.Cluster(); err != nil {
		return err
	}
	if c.LeaseTTL < leaseTTLMin || c.LeaseTTL > leaseTTLMax {
		return fault.Errorf(fault.Invalid, "lease-ttl: %v is outside %v to %v", c.LeaseTTL, leaseTTLMin, leaseTTLMax)
	}
	return nil
}

// Cluster gives the wanted cluster, zero = any.
func (c Config) Cluster() (partition.UUID, error) {
	if c.ClusterID == "" {
		return partition.UUID{}, nil
	}
	id, err := partition.ParseUUID(c.ClusterID)
	if err != nil {
		return partition.UUID{}, fault.Errorf(fault.Invalid, "cluster-id: %q is not a UUID", c.ClusterID)
	}
	return id, nil
}

// Admin is the admin port; nil = none.
func (c Config) Admin() *Port {
	if c.AdminHost == "" {
		return nil
	}
	return &Port{Host: c.AdminHost}
}
