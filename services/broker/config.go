package broker

import (
	"net"
	"time"

	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// Config is what a user sets.
type Config struct {
	NodeID         uint64        `koanf:"node-id" usage:"number of this broker, 1 and up, unique in the cluster and kept over restarts"`
	DataDir        string        `koanf:"data-dir" usage:"directory to keep the data in; made if missing"`
	Etcd           []string      `koanf:"etcd" usage:"etcd endpoints, comma separated"`
	ClusterID      string        `koanf:"cluster-id" usage:"UUID of the cluster to belong to; empty = the one in etcd, or a new one"`
	Zone           string        `koanf:"zone" usage:"failure zone of this process"`
	CapnpHost      string        `koanf:"capnp-host" usage:"address to serve the data port on, host:port"`
	HTTPHost       string        `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdminHost      string        `koanf:"admin-host" usage:"address to serve /metrics and pprof on, host:port; empty = nowhere"`
	AdvertiseCapnp string        `koanf:"advertise-capnp" usage:"address that others reach the data port by; empty = the listen address"`
	AdvertiseHTTP  string        `koanf:"advertise-http" usage:"address that others reach the HTTP port by; empty = the listen address"`
	SyncPolicy     string        `koanf:"sync-policy" usage:"when records are synced to disk: every-batch (before the ack), an interval such as 100ms, or none"`
	Journal        string        `koanf:"journal" usage:"how small appends become durable: auto (those that come together share a sync of the journal), always, or never (each file is synced)" oneof:"auto|always|never"`
	JournalSize    config.Bytes  `koanf:"journal-size" usage:"disk that the journal takes for appends, 1MiB to 16GiB; taken when they first come together"`
	BodyMemory     config.Bytes  `koanf:"body-memory" usage:"memory for batches that wait to be appended, 16MiB and up"`
	LeaseTTL       time.Duration `koanf:"lease-ttl" usage:"how long after its last renewal the broker counts as gone, 2s to 60s"`
	LogLevel       string        `koanf:"log-level" usage:"least level that is logged" oneof:"debug|info|warn|error"`
	LogFormat      string        `koanf:"log-format" usage:"form of the log" oneof:"text|json"`
}

// Defaults of a Config. NodeID has none.
func Defaults() Config {
	return Config{
		DataDir:   "/var/lib/sq",
		Etcd:      []string{"http://localhost:2379"},
		CapnpHost: "localhost:6164", HTTPHost: "localhost:6162", AdminHost: "localhost:6169",
		SyncPolicy: "every-batch", Journal: "auto", JournalSize: commit.DefaultRingBytes, BodyMemory: 256 << 20, LeaseTTL: 6 * time.Second,
		LogLevel: "info", LogFormat: "text",
	}
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	if c.NodeID == 0 || c.NodeID > nodeIDMax {
		return fault.Errorf(fault.Invalid, "node-id: %d is outside 1 to %d", c.NodeID, uint64(nodeIDMax))
	}
	if c.DataDir == "" {
		return fault.Errorf(fault.Invalid, "data-dir: is empty, a directory is needed")
	}
	for _, address := range []struct {
		field, value string
		optional     bool
	}{
		{"capnp-host", c.CapnpHost, false},
		{"http-host", c.HTTPHost, false},
		{"admin-host", c.AdminHost, true},
		{"advertise-capnp", c.AdvertiseCapnp, true},
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
	if _, err := replica.ParseSyncPolicy(c.SyncPolicy); err != nil {
		return fault.Errorf(fault.Invalid, "sync-policy: %w", err)
	}
	if _, err := commit.ParseMode(c.Journal); err != nil {
		return fault.Errorf(fault.Invalid, "journal: %w", err)
	}
	if c.JournalSize < journalSizeMin || c.JournalSize > journal.MaxRingBytes {
		return fault.Errorf(fault.Invalid, "journal-size: %v is outside %v to %v", c.JournalSize, config.Bytes(journalSizeMin), config.Bytes(journal.MaxRingBytes))
	}
	if c.BodyMemory < bodyMemoryMin {
		return fault.Errorf(fault.Invalid, "body-memory: %v is below %v", c.BodyMemory, config.Bytes(bodyMemoryMin))
	}
	if c.LeaseTTL < leaseTTLMin || c.LeaseTTL > leaseTTLMax {
		return fault.Errorf(fault.Invalid, "lease-ttl: %v is outside %v to %v", c.LeaseTTL, leaseTTLMin, leaseTTLMax)
	}
	return nil
}

func (c Config) node() partition.NodeID { return partition.NodeID(c.NodeID) }

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
