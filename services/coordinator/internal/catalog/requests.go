package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Kinds of idempotent requests.
const (
	kindCreateTopic     = "topics.create"
	kindCreateNamespace = "namespaces.create"
)

// request is an idempotent request in work.
type request struct {
	id    string // "" = not idempotent
	kind  string
	hash  string
	lease topology.LeaseID
}

func newRequest(id, kind string, content any) (*request, error) {
	if err := checkRequestID(id); err != nil {
		return nil, err
	}
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	sum := sha256.Sum256(data)
	return &request{id: id, kind: kind, hash: hex.EncodeToString(sum[:16])}, nil
}

// replayed gives the topic that an earlier request with the id made. ok is false where the id is new.
func (c *Catalog) replayed(ctx context.Context, r *request) (topic partition.UUID, ok bool, err error) {
	if r.id == "" {
		return partition.UUID{}, false, nil
	}
	first, ok, err := get[topology.Request](ctx, c.cfg.Store, topology.RequestKey(r.id))
	if err != nil || !ok {
		return partition.UUID{}, false, err
	}
	if first.Value.Kind != r.kind || first.Value.Hash != r.hash {
		return partition.UUID{}, false, fault.Errorf(fault.Conflict, "requestId %q was used for another request: take a new one", r.id)
	}
	return first.Value.Topic, true, nil
}

// record gives the compare and the op that remember a request together with what it makes.
func (c *Catalog) record(ctx context.Context, r *request, topic partition.UUID) ([]topology.Compare, []topology.Op, error) {
	if r.id == "" {
		return nil, nil, nil
	}
	op, err := put(topology.RequestKey(r.id), topology.Request{V: topology.SchemaVersion, Kind: r.kind, Topic: topic, Hash: r.hash})
	if err != nil {
		return nil, nil, err
	}
	r.lease, err = c.cfg.Store.Grant(ctx, requestTTL)
	if err != nil {
		return nil, nil, fault.Wrap("grant a lease for the request", err)
	}
	op.Lease = r.lease
	return []topology.Compare{missing(op.Key)}, []topology.Op{op}, nil
}

// forget ends the lease of a request that made nothing.
func (c *Catalog) forget(ctx context.Context, r *request) {
	if r.lease == 0 {
		return
	}
	if err := c.cfg.Store.Revoke(ctx, r.lease); err != nil && !errors.Is(err, topology.ErrLeaseNotFound) {
		c.cfg.Log.Debug("revoke the lease of a request", "err", err) // it ends by itself
	}
	r.lease = 0
}
