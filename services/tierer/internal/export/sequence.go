package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

const (
	retryFirst = 100 * time.Millisecond
	retryLast  = 5 * time.Second
)

// tryWrite takes the next sequence for a manifest; false where it was not free or is below a floor.
func (e *Exporter) tryWrite(ctx context.Context, m *manifest.Manifest, ids []partition.ID) (bool, error) {
	if !e.known {
		last, err := LastSequence(ctx, e.cfg.Bucket, m.Cluster, 0)
		if err != nil {
			return false, err
		}
		e.last, e.known = last, true
	}
	m.Sequence = e.last + 1
	data, err := m.Encode()
	if err != nil {
		return false, fault.Errorf(fault.Internal, "write manifest: %w", err)
	}
	key := manifest.Key(m.Cluster, m.Sequence)
	_, err = e.cfg.Bucket.Put(ctx, key, bytes.NewReader(data), int64(len(data)), objstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objstore.ErrExists) {
		var ours bool
		if ours, err = same(ctx, e.cfg.Bucket, key, data); err == nil && !ours {
			e.last, err = LastSequence(ctx, e.cfg.Bucket, m.Cluster, m.Sequence)
			return false, err
		}
	}
	if err != nil {
		return false, fmt.Errorf("write manifest: %w", err)
	}
	e.last = m.Sequence
	floor, err := e.floor(ctx, ids)
	if err != nil {
		return false, err
	}
	if floor > m.Sequence {
		e.last = floor - 1
		return false, nil
	}
	return true, nil
}

// same tells whether an object has these bytes: whether a PUT that was not answered was ours.
func same(ctx context.Context, bucket objstore.Bucket, key string, want []byte) (bool, error) {
	body, info, err := bucket.Get(ctx, key, 0, -1)
	if err != nil {
		return false, fmt.Errorf("read manifest: %w", err)
	}
	if info.Size != int64(len(want)) {
		return false, body.Close() //nolint:wrapcheck // nothing was read.
	}
	got, err := io.ReadAll(io.LimitReader(body, int64(len(want))+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return false, fmt.Errorf("read manifest: %w", err)
	}
	return bytes.Equal(got, want), nil
}

// floor gives the highest floor of the partitions: sequences below it may have been deleted, and are not to be used.
func (e *Exporter) floor(ctx context.Context, ids []partition.ID) (uint64, error) {
	var highest uint64
	for _, id := range ids {
		kv, ok, _, err := e.cfg.Store.Get(ctx, topology.TierKey(id))
		if err != nil {
			return 0, fmt.Errorf("read sequence floor: %w", err)
		}
		if !ok {
			continue
		}
		floor, err := topology.Decode[topology.TierFloor](kv.Value)
		if err != nil {
			return 0, fault.Wrap("read sequence floor", err)
		}
		highest = max(highest, floor.ManifestSequence)
	}
	return highest, nil
}

// LastSequence gives the highest sequence in the bucket above one that is known; known where there is none. Sequences are taken one by one,
// so it doubles and halves instead of listing them all.
func LastSequence(ctx context.Context, bucket objstore.Bucket, cluster partition.UUID, known uint64) (uint64, error) {
	// above gives the first sequence above one, 0 where there is none.
	above := func(sequence uint64) (uint64, error) {
		found, err := bucket.List(ctx, manifest.Prefix(cluster), manifest.Key(cluster, sequence), 1)
		if err != nil {
			return 0, fmt.Errorf("list manifests: %w", err)
		}
		if len(found) == 0 {
			return 0, nil
		}
		next, ok := manifest.ParseKey(cluster, found[0].Key)
		if !ok {
			return 0, fault.Errorf(fault.Corrupt, "list manifests: %s is not the key of one", found[0].Key)
		}
		return next, nil
	}
	low, step := known, uint64(1) // low is taken or known
	for {
		next, err := above(low + step - 1)
		if err != nil {
			return 0, err
		}
		if next == 0 {
			break
		}
		low, step = next, 2*step
	}
	for high := low + step; low+1 < high; { // nothing is taken from high on
		middle := low + (high-low)/2
		next, err := above(middle - 1)
		if err != nil {
			return 0, err
		}
		if next == 0 {
			high = middle
		} else {
			low = next
		}
	}
	return low, nil
}
