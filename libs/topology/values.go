package topology

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// SchemaVersion of the values this build writes and the newest it reads.
const SchemaVersion = 1

// Name is a topic's name in its namespace.
type Name struct {
	Namespace string
	Topic     string
}

// String gives "topic", or "namespace/topic" outside the default namespace.
func (n Name) String() string {
	if n.Namespace == DefaultNamespace {
		return n.Topic
	}
	return n.Namespace + "/" + n.Topic
}

// DefaultNamespace is the one that is not shown.
const DefaultNamespace = "default"

// Cluster is the cluster's identity.
type Cluster struct {
	V          int            `json:"v"`
	ID         partition.UUID `json:"id"`
	Lineage    partition.UUID `json:"lineage"`
	Generation uint64         `json:"generation"` // raised when etcd is restored from a backup
	Created    time.Time      `json:"created"`
}

// Namespace keeps topics apart.
type Namespace struct {
	V       int       `json:"v"`
	Created time.Time `json:"created"`
}

// TopicRef is what a name stands for.
type TopicRef struct {
	V  int            `json:"v"`
	ID partition.UUID `json:"id"`
}

// Durability is what a topic asks of an ack.
type Durability string

// Durabilities.
const (
	DurabilityQuorum  Durability = "quorum"
	DurabilityRelaxed Durability = "relaxed"
)

// Cleanup is how old records go.
type Cleanup string

// Cleanups.
const (
	CleanupDelete  Cleanup = ""        // whole segments, by retention
	CleanupCompact Cleanup = "compact" // also records that have a newer one of their key
)

// Topic is a topic's settings. Zero means: never, or off, but where a line says otherwise.
type Topic struct {
	V                 int            `json:"v"`
	ID                partition.UUID `json:"id"`
	Namespace         string         `json:"namespace"`
	Name              string         `json:"name"`
	Partitions        uint32         `json:"partitions"`
	ReplicationFactor uint32         `json:"replicationFactor"`
	MapVersion        uint32         `json:"mapVersion"` // of the hash ranges; 1 and up
	Durability        Durability     `json:"durability"`
	RetentionTime     Duration       `json:"retentionTime,omitempty"`
	RetentionBytes    int64          `json:"retentionBytes,omitempty"`
	LocalTime         Duration       `json:"localTime,omitempty"`  // with LocalBytes 0: 1 h
	LocalBytes        int64          `json:"localBytes,omitempty"` // with LocalTime 0: 1 GiB
	SegmentBytes      int64          `json:"segmentBytes"`
	SegmentAge        Duration       `json:"segmentAge"`
	TierDisabled      bool           `json:"tierDisabled,omitempty"`
	TierMaxLag        Duration       `json:"tierMaxLag,omitempty"`
	Cleanup           Cleanup        `json:"cleanup,omitempty"`
	TombstoneAge      Duration       `json:"tombstoneAge,omitempty"` // 0 = 24 h
	BatchBytesMax     uint32         `json:"batchBytesMax"`
	Created           time.Time      `json:"created"`
	Deleted           *time.Time     `json:"deleted,omitempty"` // a tombstone: replicas delete their data
}

// Tiers tells whether sealed segments go to the bucket. Those of a compacted topic do not: what is there never changes, and compaction would have
// to leave it alone.
func (t Topic) Tiers() bool { return !t.TierDisabled && t.Cleanup != CleanupCompact }

// FullName gives the topic's name in its namespace.
func (t Topic) FullName() Name { return Name{Namespace: t.Namespace, Topic: t.Name} }

// Duration is a time.Duration that JSON shows as "1h0m0s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}
	*d = Duration(parsed)
	return nil
}

// BrokerIdent outlives a broker's process.
type BrokerIdent struct {
	V           int                   `json:"v"`
	Incarnation partition.Incarnation `json:"incarnation"`
	Zone        string                `json:"zone,omitempty"`
	Disks       []Disk                `json:"disks,omitempty"`
}

// States of a Disk.
const (
	DiskOK       = "ok"
	DiskPoisoned = "poisoned" // it has failed, and the broker has ended; the next start uses it again
	DiskRetired  = "retired"  // it has failed twice within DiskMemory: no start uses it, unless told to
)

// Disk is a data disk of a broker.
type Disk struct {
	ID       partition.UUID `json:"id"`
	State    string         `json:"state"`
	Failures []time.Time    `json:"failures,omitempty"` // within DiskMemory of the newest
	// Forgive has ClaimBroker take a retired disk all the same, and forget its failures.
	Forgive bool `json:"-"`
}

// BrokerOrders is what operators have asked of a broker. It outlives the broker's process and the coordinator's.
type BrokerOrders struct {
	V int `json:"v"`
	// Drain: it leads nothing.
	Drain bool `json:"drain,omitempty"`
	// Decommission: it holds nothing. nil = not asked for.
	Decommission *Decommission `json:"decommission,omitempty"`
}

// Decommission of a broker.
type Decommission struct {
	Since time.Time `json:"since"`
	// Replicas is how many it had then.
	Replicas int `json:"replicas"`
}

// Recovery is the record of a forced recovery. It is never deleted.
type Recovery struct {
	V        int              `json:"v"`
	Topic    partition.UUID   `json:"topic"`
	Name     Name             `json:"name"` // then
	Index    partition.Index  `json:"index"`
	Epoch    partition.Epoch  `json:"epoch"` // that began with it
	Lineage  partition.UUID   `json:"lineage"`
	Time     time.Time        `json:"time"`
	Survivor partition.Member `json:"survivor"`
	// LastEpoch and End are of the survivor's log. What was acknowledged from End on is lost.
	LastEpoch partition.Epoch  `json:"lastEpoch"`
	End       partition.Offset `json:"end"`
	// HighWatermark is the highest that any member told.
	HighWatermark partition.Offset `json:"highWatermark"`
	Members       []RecoveryMember `json:"members"` // of the base
	Loss          string           `json:"loss"`    // in words
}

// RecoveryMember is what was known of a member in a forced recovery.
type RecoveryMember struct {
	Broker        partition.NodeID `json:"broker"`
	Replica       partition.UUID   `json:"replica"`
	Found         bool             `json:"found"`
	LastEpoch     partition.Epoch  `json:"lastEpoch,omitempty"`
	End           partition.Offset `json:"end,omitempty"`
	HighWatermark partition.Offset `json:"highWatermark,omitempty"`
	Faulty        bool             `json:"faulty,omitempty"`
	Error         string           `json:"error,omitempty"`
}

// Live says that a process is there and where. It is leased.
type Live struct {
	V           int                   `json:"v"`
	ID          string                `json:"id"`             // of the process; a broker's is its NodeID in decimal
	Node        partition.NodeID      `json:"node,omitempty"` // of a broker
	Incarnation partition.Incarnation `json:"incarnation"`
	Lease       LeaseID               `json:"lease"`
	Zone        string                `json:"zone,omitempty"`
	Software    string                `json:"software"`
	Capnp       string                `json:"capnp,omitempty"` // addresses, host:port
	GRPC        string                `json:"grpc,omitempty"`
	HTTP        string                `json:"http,omitempty"`
}

// PIDBlock is the next free producer id.
type PIDBlock struct {
	V    int    `json:"v"`
	Next uint64 `json:"next"`
}

// Request is the result of an idempotent request.
type Request struct {
	V     int            `json:"v"`
	Kind  string         `json:"kind"`
	Topic partition.UUID `json:"topic,omitempty"`
	Hash  string         `json:"hash"` // of the request, to refuse another under the same id
}

// TierFloor bounds reuse of names in the bucket.
type TierFloor struct {
	V                int    `json:"v"`
	ManifestSequence uint64 `json:"manifestSequence"`
}

// Encode gives the JSON of a value. Values here always encode; the error is for the caller's reporting of a programming mistake.
func Encode(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", value, err)
	}
	return data, nil
}

// Decode reads a value and refuses a schema version newer than SchemaVersion. Errors are fault.UnsupportedVersion or fault.Corrupt.
func Decode[T any](data []byte) (T, error) {
	var value T
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return value, fault.Errorf(fault.Corrupt, "decode %T: %w", value, err)
	}
	if version.V < 1 || version.V > SchemaVersion {
		return value, fault.Errorf(fault.UnsupportedVersion, "decode %T: schema version %d, this build reads 1 to %d", value, version.V, SchemaVersion)
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fault.Errorf(fault.Corrupt, "decode %T: %w", value, err)
	}
	return value, nil
}
