package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

// Limits of the store.
const (
	// DefaultRequestTimeout bounds a call where Config does not.
	DefaultRequestTimeout = 5 * time.Second
	// opsMax is etcd's default limit of operations in a transaction.
	opsMax = 128
	// pageKeys bounds one answer of a List.
	pageKeys = 10_000
	// messageBytesMax bounds one answer of etcd.
	messageBytesMax = 256 << 20
)

// Config of a Store.
type Config struct {
	// Endpoints are etcd's client addresses: host:port or a URL.
	Endpoints []string
	// RequestTimeout bounds every call; 0 = DefaultRequestTimeout.
	RequestTimeout time.Duration
	// TLS is nil for plain TCP.
	TLS *tls.Config
}

// Store is a topology.Store in etcd.
type Store struct {
	client  *clientv3.Client
	timeout time.Duration
}

var _ topology.Store = (*Store)(nil)

// New makes a store. It does not wait for a connection: a cluster that cannot be reached shows in the first call.
func New(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, fault.Errorf(fault.Invalid, "connect to etcd: no endpoints")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		DialKeepAliveTime:    3 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		MaxCallRecvMsgSize:   messageBytesMax,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "connect to etcd %v: %w", cfg.Endpoints, err)
	}
	return Wrap(client, cfg.RequestTimeout), nil
}

// Wrap makes a store of a client, which the store then owns. timeout 0 = DefaultRequestTimeout.
func Wrap(client *clientv3.Client, timeout time.Duration) *Store {
	if timeout <= 0 {
		timeout = DefaultRequestTimeout
	}
	return &Store{client: client, timeout: timeout}
}

// Close implements topology.Store.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// Get implements topology.Store.
func (s *Store) Get(ctx context.Context, key string) (topology.KV, bool, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := s.client.Get(ctx, key)
	if err != nil {
		return topology.KV{}, false, 0, readError("get "+key, err)
	}
	if len(answer.Kvs) == 0 {
		return topology.KV{}, false, answer.Header.Revision, nil
	}
	return fromEtcd(answer.Kvs[0]), true, answer.Header.Revision, nil
}

// List implements topology.Store.
func (s *Store) List(ctx context.Context, prefix string, minModRevision int64) ([]topology.KV, int64, error) {
	var kvs []topology.KV
	var revision int64
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		opts := []clientv3.OpOption{
			clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(revision), clientv3.WithMinModRev(minModRevision),
		}
		page, err := s.page(ctx, from, opts)
		if err != nil {
			return nil, 0, readError("list "+prefix, err)
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			kvs = append(kvs, fromEtcd(kv))
		}
		if !page.More || len(page.Kvs) == 0 {
			return kvs, revision, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func (s *Store) page(ctx context.Context, from string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Get(ctx, from, opts...) //nolint:wrapcheck // List wraps it.
}

// Txn implements topology.Store.
func (s *Store) Txn(ctx context.Context, compares []topology.Compare, ops []topology.Op) (topology.TxnResult, error) {
	if len(ops) > opsMax || len(compares) > opsMax {
		return topology.TxnResult{}, fmt.Errorf("write transaction: %d compares and %d operations, %d at most", len(compares), len(ops), opsMax)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conditions := make([]clientv3.Cmp, 0, len(compares))
	for _, compare := range compares {
		conditions = append(conditions, condition(compare))
	}
	puts := make([]clientv3.Op, 0, len(ops))
	for _, op := range ops {
		if op.Delete {
			puts = append(puts, clientv3.OpDelete(op.Key))
		} else {
			puts = append(puts, clientv3.OpPut(op.Key, string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Lease))))
		}
	}
	answer, err := s.client.Txn(ctx).If(conditions...).Then(puts...).Commit()
	if err != nil {
		return topology.TxnResult{}, writeError("write transaction", err)
	}
	return topology.TxnResult{Succeeded: answer.Succeeded, Revision: answer.Header.Revision}, nil
}

func condition(compare topology.Compare) clientv3.Cmp {
	switch compare.Target {
	case topology.CompareCreateRevision:
		return clientv3.Compare(clientv3.CreateRevision(compare.Key), "=", compare.Want)
	case topology.CompareVersion:
		return clientv3.Compare(clientv3.Version(compare.Key), "=", compare.Want)
	default:
		return clientv3.Compare(clientv3.ModRevision(compare.Key), "=", compare.Want)
	}
}

// Grant implements topology.Store. The ttl is rounded up to whole seconds; etcd may raise it further.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (topology.LeaseID, error) {
	if ttl <= 0 {
		return 0, fmt.Errorf("grant lease: ttl %v is not positive", ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, readError("grant lease", err)
	}
	return topology.LeaseID(answer.ID), nil
}

// KeepAliveOnce implements topology.Store.
func (s *Store) KeepAliveOnce(ctx context.Context, id topology.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(id)); err != nil {
		return readError(fmt.Sprintf("renew lease %d", id), err)
	}
	return nil
}

// Revoke implements topology.Store.
func (s *Store) Revoke(ctx context.Context, id topology.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.Revoke(ctx, clientv3.LeaseID(id))
	if err = readError(fmt.Sprintf("revoke lease %d", id), err); err != nil && !errors.Is(err, topology.ErrLeaseNotFound) {
		return err
	}
	return nil
}
