package replica

import (
	"cmp"
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// tierState is what the replica knows about tiering beyond the log.
type tierState struct {
	marked           partition.Offset // sealed on disk up to here
	toMark           []toMark         // committed, not yet marked on disk; oldest first
	marking          bool             // the first of them is with the disk
	exportedEnd      partition.Offset // told by a tierer in this life: a manifest covers the log up to here
	exportedVersion  uint64
	manifestSequence uint64
}

// toMark is a committed Seal; compared: the own file is what it says.
type toMark struct {
	sealed.Seal
	compared bool
}

// hasHarvest tells whether there is work for a tierer.
func (r *Replica) hasHarvest() bool {
	if !r.core.Leads() || r.failure != nil {
		return false
	}
	t := r.fold.Tier
	if len(t.Collectable(r.time.Expiry, r.tier.exportedVersion, 1)) > 0 || t.TierEnd() > 0 && r.tier.exportedVersion < t.Version() {
		return true
	}
	return r.topic.Load().Tiers() && t.HasSeal(r.tier.marked)
}

// HasHarvest tells whether there is work for a tierer, without asking the replica's goroutine.
func (r *Replica) HasHarvest() bool { return r.view.Load().harvest }

// Harvest gives the work for a tierer, with at most n sealed segments; ok is false if there is none.
func (r *Replica) Harvest(ctx context.Context, n int) (h sealed.Harvest, ok bool, err error) {
	type work struct {
		sealed.Harvest
		ok bool
	}
	w, err := ask(ctx, r, false, func(answer func(work, error)) {
		if !r.hasHarvest() {
			answer(work{}, nil)
			return
		}
		t := r.fold.Tier
		h := sealed.Harvest{
			Partition: r.cfg.Partition, Epoch: r.core.LastEpoch(), TierEnd: t.TierEnd(), ExportedEnd: r.tier.exportedEnd,
			ExportedVersion: r.tier.exportedVersion, TableVersion: t.Version(),
			Collectable: t.Collectable(r.time.Expiry, r.tier.exportedVersion, harvestKeys),
		}
		if r.topic.Load().Tiers() {
			h.Sealed = r.sealedSegments(n)
		}
		answer(work{h, true}, nil)
	})
	return w.Harvest, w.ok, err
}

// sealedSegments gives the first n segments that are sealed on disk and not tiered.
func (r *Replica) sealedSegments(n int) []sealed.Untiered {
	info := map[partition.Offset]wal.SegmentInfo{}
	for _, s := range r.wal.Segments() {
		info[s.Base] = s
	}
	var out []sealed.Untiered
	for _, seal := range r.fold.Tier.Seals() {
		s, ok := info[seal.Base]
		if !ok || seal.End > r.tier.marked || len(out) == n || uint64(s.Size) != seal.Size { // its compacted file is not in place yet
			break
		}
		out = append(out, sealed.Untiered{Seal: seal, Epoch: s.Epoch, FirstAppendTime: s.FirstAppendTime, LastAppendTime: s.LastAppendTime})
	}
	return out
}

// OnDisk lists the segments that are sealed on this disk, in order, and the directory that they are in.
func (r *Replica) OnDisk() (dir string, sealed []wal.SegmentInfo) {
	for _, s := range r.wal.Segments() {
		if s.State == wal.StateSealed {
			sealed = append(sealed, s)
		}
	}
	return r.cfg.Dir, sealed
}

// SealedPart is a raw part of a sealed segment.
type SealedPart struct {
	Size     uint64     // of the whole log part
	Index    []byte     // of a read at position 0
	Snapshot []byte     // of a read at position 0
	Chunk    *wal.Chunk // nil = no bytes; the caller closes it
}

// ReadSealed gives at most n bytes of a sealed segment's log part from position on. Errors: NotFound where no such segment is sealed here.
func (r *Replica) ReadSealed(base partition.Offset, position uint64, n int) (SealedPart, error) {
	for _, s := range r.wal.Segments() {
		if s.Base != base || s.State != wal.StateSealed {
			continue
		}
		part := SealedPart{Size: uint64(s.Size)}
		if position > part.Size {
			return SealedPart{}, fault.Errorf(fault.Invalid, "read sealed segment %d at %d: it has %d bytes", base, position, s.Size)
		}
		var err error
		if position == 0 {
			if part.Index, part.Snapshot, err = r.wal.SealedParts(base); err != nil {
				return SealedPart{}, fault.Wrap("read parts of sealed segment", err)
			}
		}
		if n = min(n, r.cfg.Limits.FetchBytes); position < part.Size && n > 0 {
			if part.Chunk, err = r.wal.ReadSealed(base, int64(position), n); err != nil {
				return SealedPart{}, fault.Wrap("read sealed segment", err)
			}
		}
		return part, nil
	}
	return SealedPart{}, fault.Errorf(fault.NotFound, "read sealed segment %d of %s: not sealed here", base, r.cfg.Partition)
}

// TierTable gives the part of the tier table that ends behind from; no segments if since is the current version. Only the leader answers.
func (r *Replica) TierTable(ctx context.Context, since uint64, from partition.Offset, n int) (sealed.Excerpt, error) {
	return ask(ctx, r, false, func(answer func(sealed.Excerpt, error)) {
		if !r.core.Leads() {
			answer(sealed.Excerpt{}, fault.Wrap("read tier table", r.notLeader()))
			return
		}
		t := r.fold.Tier
		table := sealed.Excerpt{Epoch: r.core.LastEpoch(), Version: t.Version(), TierEnd: t.TierEnd(), LogStart: t.LogStart()}
		if since < table.Version {
			table.Segments, table.More = t.Tiered(from, min(cmp.Or(max(n, 0), tableEntries), tableEntries))
		}
		answer(table, nil)
	})
}

// CommitTier has uploaded segments committed to the tier table. The same segments again are a success. Errors as sealed.Table.CheckCommit,
// NotLeader, OutcomeUnknown.
func (r *Replica) CommitTier(ctx context.Context, segments []sealed.Segment) (sealed.Committed, error) {
	return ask(ctx, r, true, func(answer func(sealed.Committed, error)) {
		r.request(petition.Petition{
			Decide: func() (func(batchcapnp.Control) error, error) {
				fresh, err := r.fold.Tier.CheckCommit(segments)
				if err != nil || len(fresh) == 0 {
					return nil, err
				}
				return func(c batchcapnp.Control) error { return sealed.FillCommit(c, fresh) }, nil
			},
			Done: func(err error) {
				if err != nil {
					answer(sealed.Committed{}, fault.Wrap("commit to the tier", err))
					return
				}
				answer(sealed.Committed{TierEnd: r.fold.Tier.TierEnd(), TableVersion: r.fold.Tier.Version()}, nil)
			},
		})
	})
}

// Exported takes in that a manifest in the bucket covers the table: local data below its tier end may go. Errors: StaleEpoch where it was made
// of another epoch's table, Invalid where it claims more than the table has.
func (r *Replica) Exported(ctx context.Context, e sealed.Exported) error {
	_, err := ask(ctx, r, false, func(answer func(struct{}, error)) {
		t := r.fold.Tier
		switch own := r.core.LastEpoch(); {
		case !r.core.Leads():
			answer(struct{}{}, fault.Wrap("take in an export", r.notLeader()))
		case e.Epoch != own:
			answer(struct{}{}, staleEpoch("take in an export", e.Epoch, own))
		case e.TableVersion > t.Version() || e.TierEnd > t.TierEnd():
			answer(struct{}{}, fault.Errorf(fault.Invalid, "take in an export: of table version %d up to %d, the table is at %d up to %d",
				e.TableVersion, e.TierEnd, t.Version(), t.TierEnd()))
		default:
			r.tier.exportedEnd = max(r.tier.exportedEnd, e.TierEnd)
			r.tier.exportedVersion = max(r.tier.exportedVersion, e.TableVersion)
			r.tier.manifestSequence = max(r.tier.manifestSequence, e.ManifestSequence)
			r.kept.due = true
			r.show()
			answer(struct{}{}, nil)
		}
	})
	return err
}

// Collected takes in that keys are gone from the bucket, or are to be refused for ever. Errors: Conflict where the table still names one.
func (r *Replica) Collected(ctx context.Context, keys []string) error {
	_, err := ask(ctx, r, true, func(answer func(struct{}, error)) {
		r.request(petition.Petition{
			Decide: func() (func(batchcapnp.Control) error, error) {
				fresh, err := r.fold.Tier.CheckCollect(keys)
				if err != nil || len(fresh) == 0 {
					return nil, err
				}
				return func(c batchcapnp.Control) error { return sealed.FillCollect(c, fresh) }, nil
			},
			Done: func(err error) { answer(struct{}{}, fault.Wrap("collect keys", err)) },
		})
	})
	return err
}
