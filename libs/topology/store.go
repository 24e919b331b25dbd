package topology

import (
	"context"
	"errors"
	"time"
)

// ErrCompacted is what a watch ends with when its start revision is no longer kept: list anew.
var ErrCompacted = errors.New("revision compacted")

// ErrUnavailable: the store cannot be reached, or has no quorum. A Txn that ends so may have been applied.
var ErrUnavailable = errors.New("topology store unavailable")

// ErrLeaseNotFound: the lease has ended.
var ErrLeaseNotFound = errors.New("lease not found")

// LeaseID names a lease; 0 = none.
type LeaseID int64

// KV is a key as of a revision.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64
	Lease          LeaseID
}

// Store is a strictly serializable map with revisions, leases and watches: what SQ uses of etcd.
type Store interface {
	// Get reads a key, linearizably; ok is false where it is missing. revision is the store's.
	Get(ctx context.Context, key string) (kv KV, ok bool, revision int64, err error)
	// List reads all keys with a prefix, by key, as of one revision. With minModRevision > 0 only what changed at or after it.
	List(ctx context.Context, prefix string, minModRevision int64) (kvs []KV, revision int64, err error)
	// Txn applies all ops if all compares hold, else none. At most 128 ops.
	Txn(ctx context.Context, compares []Compare, ops []Op) (TxnResult, error)
	// Watch delivers changes of keys with the prefix from a revision on, in revision order, until ctx ends or the watch breaks: the channel is
	// then closed after a last Events with Err.
	Watch(ctx context.Context, prefix string, fromRevision int64) <-chan Events
	// Grant makes a lease; the store may round ttl up.
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, error)
	// KeepAliveOnce renews a lease; ErrLeaseNotFound if it has ended.
	KeepAliveOnce(ctx context.Context, id LeaseID) error
	// Revoke ends a lease and deletes its keys; no error if it has ended.
	Revoke(ctx context.Context, id LeaseID) error
	// Close ends watches and connections.
	Close() error
}

// CompareTarget says what of a key is compared.
type CompareTarget uint8

// Targets of Compare.
const (
	// CompareModRevision with 0 means: the key is missing.
	CompareModRevision CompareTarget = iota
	CompareCreateRevision
	CompareVersion
)

// Compare holds if the target of the key equals Want.
type Compare struct {
	Key    string
	Target CompareTarget
	Want   int64
}

// Op puts a value under a key, or deletes the key.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
	Lease  LeaseID // of a put
}

// TxnResult tells whether the ops were applied, and the revision.
type TxnResult struct {
	Succeeded bool
	Revision  int64
}

// Events are the changes of one revision, or the end of a watch.
type Events struct {
	Revision int64
	Changes  []Change
	Err      error
}

// Change is a put (KV is new) or a delete (only KV.Key and KV.ModRevision are set).
type Change struct {
	KV      KV
	Deleted bool
}
