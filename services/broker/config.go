package broker

import (
	"strconv"
	"time"

	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/durability"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// Config is what a user sets.
type Config struct {
	NodeID         uint64        `koanf:"node-id" usage:"number of this broker, 1 and up, unique in the cluster and kept over restarts"`
	DataDir        string        `koanf:"data-dir" usage:"directory to keep the data in; made if missing"`
	CapnpHost      string        `koanf:"capnp-host" usage:"address to serve the data port on, host:port"`
	HTTPHost       string        `koanf:"http-host" usage:"address to serve /livez, /readyz and /version on, host:port"`
	AdvertiseCapnp string        `koanf:"advertise-capnp" usage:"address that others reach the data port by; empty = the listen address"`
	AdvertiseHTTP  string        `koanf:"advertise-http" usage:"address that others reach the HTTP port by; empty = the listen address"`
	SyncPolicy     string        `koanf:"sync-policy" usage:"when records are synced to disk: every-batch (before the ack), an interval such as 100ms, or none"`
	Journal        string        `koanf:"journal" usage:"how small appends become durable: auto (those that come together share a sync of the journal), always, or never (each file is synced)" oneof:"auto|always|never"`
	JournalSize    config.Bytes  `koanf:"journal-size" usage:"disk that the journal takes for appends, 1MiB to 16GiB; taken when they first come together"`
	BodyMemory     config.Bytes  `koanf:"body-memory" usage:"memory for batches of clients that wait to be appended, 16MiB and up; those of other brokers have a quarter of it beside that, 16MiB at least"`
	ScrubRate      config.Bytes  `koanf:"scrub-rate" usage:"how fast sealed segments are read again to find damage, bytes a second, 64KiB to 1GiB; 0 = not at all"`
	ScrubInterval  time.Duration `koanf:"scrub-interval" usage:"how long reading all of them again takes, where scrub-rate allows, 1s to 8760h"`
	CompactRate    config.Bytes  `koanf:"compact-rate" usage:"how fast topics with cleanup compact are read and written again, bytes a second, 64KiB to 1GiB; 0 = not at all"`
	CompactMemory  config.Bytes  `koanf:"compact-memory" usage:"memory for the keys of the partition that is being compacted, 1MiB to 16GiB; 80 bytes a key"`
	CatchUpRate    config.Bytes  `koanf:"catch-up-rate" usage:"how fast replicas elsewhere that are more than 8MiB behind are sent what they lack, all partitions together, bytes a second, 1MiB to 16GiB; 0 = no bound"`
	DiskRefuse     config.Bytes  `koanf:"disk-refuse" usage:"free room on the data disk below which records are refused, and below half of it all appends, 1MiB and up; 0 = the smaller of a tenth and 10GiB, and of a twentieth and 2GiB"`
	UseRetiredDisk bool          `koanf:"use-retired-disk" usage:"use the data disk although it has failed twice within a day, and forget that it has"`
	DrainTimeout   time.Duration `koanf:"drain-timeout" usage:"how long a broker that is told to stop goes on until others lead what it leads, 0 to 10m; 0 = it stops at once"`
	node.Config    `usage-lease-ttl:"how long after its last renewal the broker counts as gone, 2s to 60s"`
}

// Defaults of a Config. NodeID has none.
func Defaults() Config {
	return Config{
		DataDir: "/var/lib/sq", CapnpHost: "localhost:6164", HTTPHost: "localhost:6162", SyncPolicy: "every-batch",
		Journal: "auto", JournalSize: commit.DefaultRingBytes, BodyMemory: 256 << 20,
		ScrubRate: 5 << 20, ScrubInterval: 7 * 24 * time.Hour, CompactRate: 32 << 20, CompactMemory: 64 << 20, CatchUpRate: 64 << 20,
		DrainTimeout: 10 * time.Second,
		Config:       node.Defaults("localhost:6169"),
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
	if err := c.Check(c.ports(), leaseTTLMin); err != nil {
		return err //nolint:wrapcheck // names the field.
	}
	if _, err := durability.Parse(c.SyncPolicy); err != nil {
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
	if c.DiskRefuse != 0 && c.DiskRefuse < disk.RefuseMin {
		return fault.Errorf(fault.Invalid, "disk-refuse: %v is below %v, and not 0", c.DiskRefuse, config.Bytes(disk.RefuseMin))
	}
	if c.ScrubRate != 0 && (c.ScrubRate < scrubRateMin || c.ScrubRate > scrubRateMax) {
		return fault.Errorf(fault.Invalid, "scrub-rate: %v is outside %v to %v, and not 0", c.ScrubRate, config.Bytes(scrubRateMin), config.Bytes(scrubRateMax))
	}
	if c.CompactRate != 0 && (c.CompactRate < compact.RateMin || c.CompactRate > compactRateMax) {
		return fault.Errorf(fault.Invalid, "compact-rate: %v is outside %v to %v, and not 0",
			c.CompactRate, config.Bytes(compact.RateMin), config.Bytes(compactRateMax))
	}
	if c.CompactMemory < compact.MemoryMin || c.CompactMemory > compactMemoryMax {
		return fault.Errorf(fault.Invalid, "compact-memory: %v is outside %v to %v",
			c.CompactMemory, config.Bytes(compact.MemoryMin), config.Bytes(compactMemoryMax))
	}
	if c.CatchUpRate != 0 && (c.CatchUpRate < catchUpRateMin || c.CatchUpRate > catchUpRateMax) {
		return fault.Errorf(fault.Invalid, "catch-up-rate: %v is outside %v to %v, and not 0", c.CatchUpRate, config.Bytes(catchUpRateMin), config.Bytes(catchUpRateMax))
	}
	if c.ScrubInterval < scrubIntervalMin || c.ScrubInterval > scrubIntervalMax {
		return fault.Errorf(fault.Invalid, "scrub-interval: %v is outside %v to %v", c.ScrubInterval, scrubIntervalMin, scrubIntervalMax)
	}
	if c.DrainTimeout < 0 || c.DrainTimeout > drainTimeoutMax {
		return fault.Errorf(fault.Invalid, "drain-timeout: %v is outside 0 to %v", c.DrainTimeout, drainTimeoutMax)
	}
	return nil
}

func (c Config) node() partition.NodeID { return partition.NodeID(c.NodeID) }

// Instance is the number as text.
func (c Config) Instance() string { return strconv.FormatUint(c.NodeID, 10) }

func (c Config) ports() node.Ports {
	return node.Ports{
		Capnp: &node.Port{Host: c.CapnpHost, Advertise: c.AdvertiseCapnp}, HTTP: &node.Port{Host: c.HTTPHost, Advertise: c.AdvertiseHTTP},
		Admin: c.Admin(),
	}
}
