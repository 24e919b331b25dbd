package leader

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Harvest asks a broker which of its partitions have work, and waits up to wait for some.
func (p *Pool) Harvest(ctx context.Context, node partition.NodeID, wait time.Duration, maxSegments int) ([]Work, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	reply, err := p.call(ctx, node, func(request wirecapnp.Request) error {
		harvest, err := request.NewHarvest()
		if err != nil {
			return err
		}
		harvest.SetWaitMillis(uint32(wait.Milliseconds())) //nolint:gosec // a constant of seconds.
		harvest.SetMaxSegments(uint32(maxSegments))        //nolint:gosec // a small constant.
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer reply.Release()
	answer, err := reply.Response.Harvest()
	if err != nil {
		return nil, unreadable("harvest", err)
	}
	return readHarvest(answer)
}

// ReadSealed reads at most maxBytes of a sealed segment from a position on. Release gives the part's memory back.
func (p *Pool) ReadSealed(
	ctx context.Context, id partition.ID, base partition.Offset, position int64, maxBytes int,
) (part Part, release func(), err error) {
	reply, err := p.callLeader(ctx, id, func(request wirecapnp.Request) error {
		read, err := request.NewReadSealed()
		if err != nil {
			return err
		}
		read.SetPartition(uint32(id.Index))
		read.SetBase(uint64(base))
		read.SetPosition(uint64(position)) //nolint:gosec // not negative.
		read.SetMaxBytes(uint32(maxBytes)) //nolint:gosec // a constant of MiB.
		return setTopic(read.NewTopic, id.Topic)
	})
	if err != nil {
		return Part{}, nil, err
	}
	answer, err := reply.Response.ReadSealed()
	if err == nil {
		part, err = readPart(answer, reply.Body)
	}
	if err != nil {
		reply.Release()
		return Part{}, nil, unreadable("part of a segment", err)
	}
	return part, reply.Release, nil
}

// Table asks for the entries of the tier table that end above from; nothing comes where its version is since.
func (p *Pool) Table(ctx context.Context, id partition.ID, since uint64, from partition.Offset, maxSegments int) (Table, error) {
	reply, err := p.callLeader(ctx, id, func(request wirecapnp.Request) error {
		table, err := request.NewTierTable()
		if err != nil {
			return err
		}
		table.SetPartition(uint32(id.Index))
		table.SetSince(since)
		table.SetFrom(uint64(from))
		table.SetMaxSegments(uint32(maxSegments)) //nolint:gosec // a small constant.
		return setTopic(table.NewTopic, id.Topic)
	})
	if err != nil {
		return Table{}, err
	}
	defer reply.Release()
	answer, err := reply.Response.TierTable()
	if err != nil {
		return Table{}, unreadable("tier table", err)
	}
	return readTable(answer)
}

// Commit asks the leader to put segments, which are in the bucket under their keys, into the tier table.
func (p *Pool) Commit(ctx context.Context, cluster partition.UUID, id partition.ID, segments []manifest.Segment) (Committed, error) {
	reply, err := p.callLeader(ctx, id, func(request wirecapnp.Request) error {
		commit, err := request.NewCommitTier()
		if err != nil {
			return err
		}
		commit.SetPartition(uint32(id.Index))
		list, err := commit.NewSegments(int32(len(segments))) //nolint:gosec // few.
		if err != nil {
			return err
		}
		for i, s := range segments {
			if err := fillSegment(list.At(i), s, s.KeyIn(cluster, id)); err != nil {
				return err
			}
		}
		return setTopic(commit.NewTopic, id.Topic)
	})
	if err != nil {
		return Committed{}, err
	}
	defer reply.Release()
	answer, err := reply.Response.CommitTier()
	if err != nil {
		return Committed{}, unreadable("commit", err)
	}
	return Committed{TierEnd: partition.Offset(answer.TierEnd()), Version: answer.TableVersion()}, nil
}

// Exported tells the leader that a manifest covers its table.
func (p *Pool) Exported(ctx context.Context, id partition.ID, e Exported) error {
	reply, err := p.callLeader(ctx, id, func(request wirecapnp.Request) error {
		exported, err := request.NewExported()
		if err != nil {
			return err
		}
		exported.SetPartition(uint32(id.Index))
		exported.SetEpoch(uint64(e.Epoch))
		exported.SetTableVersion(e.Version)
		exported.SetTierEnd(uint64(e.TierEnd))
		exported.SetManifestSequence(e.Sequence)
		return setTopic(exported.NewTopic, id.Topic)
	})
	if err != nil {
		return err
	}
	reply.Release()
	return nil
}

// Collected tells the leader that keys are gone from the bucket.
func (p *Pool) Collected(ctx context.Context, id partition.ID, keys []string) error {
	reply, err := p.callLeader(ctx, id, func(request wirecapnp.Request) error {
		collected, err := request.NewCollected()
		if err != nil {
			return err
		}
		collected.SetPartition(uint32(id.Index))
		list, err := collected.NewKeys(int32(len(keys))) //nolint:gosec // as many as the leader named.
		if err != nil {
			return err
		}
		for i, key := range keys {
			if err := list.Set(i, key); err != nil {
				return err
			}
		}
		return setTopic(collected.NewTopic, id.Topic)
	})
	if err != nil {
		return err
	}
	reply.Release()
	return nil
}

func setTopic(place func() (batchcapnp.Uuid, error), topic partition.UUID) error {
	out, err := place()
	if err != nil {
		return err
	}
	hi, lo := topic.Halves()
	out.SetHi(hi)
	out.SetLo(lo)
	return nil
}

func fillSegment(out batchcapnp.Control_TierSegment, s manifest.Segment, key string) error {
	out.SetBase(uint64(s.Base))
	out.SetEnd(uint64(s.End))
	out.SetEpoch(uint64(s.Epoch))
	out.SetSize(uint64(s.Size))             //nolint:gosec // not negative.
	out.SetObjectSize(uint64(s.ObjectSize)) //nolint:gosec // not negative.
	out.SetFirstAppendTime(s.FirstAppendTime)
	out.SetLastAppendTime(s.LastAppendTime)
	if err := out.SetSha256(s.SHA256[:]); err != nil {
		return err
	}
	return out.SetKey(key)
}

func unreadable(what string, err error) error {
	return fault.Errorf(fault.Corrupt, "read %s: %w", what, err)
}
