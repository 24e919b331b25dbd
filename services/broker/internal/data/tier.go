package data

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/tiercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// harvest tells what there is to do for a tierer, waiting for something if it was asked to.
func (s *Server) harvest(ctx context.Context, c *call) error {
	in, err := c.req.Message.Harvest()
	if err != nil || !in.IsValid() {
		return unreadable(err)
	}
	limit := int(in.MaxSegments())
	if limit == 0 {
		limit = harvestSegmentsMax
	}
	polling, done := s.polling(ctx)
	got, err := s.cfg.Replicas.Harvest(polling, s.wait(ctx, in.WaitMillis()), min(limit, harvestSegmentsMax))
	if err = done(err); err != nil {
		return fault.Wrap("harvest", err)
	}
	c.reply(func(response wirecapnp.Response) error { return fillHarvests(response, got) }, nil)
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillHarvests(response wirecapnp.Response, all []sealed.Harvest) error {
	reply, err := response.NewHarvest()
	if err != nil {
		return err
	}
	list, err := reply.NewPartitions(int32(len(all)))
	if err != nil {
		return err
	}
	for i, harvest := range all {
		if err := fillHarvest(list.At(i), harvest); err != nil {
			return err
		}
	}
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillHarvest(out tiercapnp.HarvestReply_Harvest, h sealed.Harvest) error {
	if err := setTopic(out, h.Partition.Topic); err != nil {
		return err
	}
	out.SetPartition(uint32(h.Partition.Index))
	out.SetEpoch(uint64(h.Epoch))
	out.SetTierEnd(uint64(h.TierEnd))
	out.SetExportedEnd(uint64(h.ExportedEnd))
	out.SetExportedVersion(h.ExportedVersion)
	out.SetTableVersion(h.TableVersion)
	segments, err := out.NewSealed(int32(len(h.Sealed)))
	if err != nil {
		return err
	}
	for i, segment := range h.Sealed {
		to := segments.At(i)
		to.SetBase(uint64(segment.Base))
		to.SetEnd(uint64(segment.End))
		to.SetSize(segment.Size)
		to.SetEpoch(uint64(segment.Epoch))
		to.SetFirstAppendTime(segment.FirstAppendTime)
		to.SetLastAppendTime(segment.LastAppendTime)
		if err := to.SetSha256(segment.SHA256[:]); err != nil {
			return err
		}
	}
	keys, err := out.NewCollectable(int32(len(h.Collectable)))
	if err != nil {
		return err
	}
	for i, key := range h.Collectable {
		if err := keys.Set(i, key); err != nil {
			return err
		}
	}
	return nil
}

// readSealed sends a part of a sealed segment.
func (s *Server) readSealed(_ context.Context, c *call) error {
	in, err := c.req.Message.ReadSealed()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	maxBytes := int(in.MaxBytes())
	if maxBytes == 0 {
		maxBytes = fetchBytesDefault
	}
	part, err := r.ReadSealed(partition.Offset(in.Base()), in.Position(), min(maxBytes, readSealedBytesMax))
	if err != nil {
		return fault.Wrap("read sealed segment of "+id.String(), err)
	}
	var body frame.Body // stays nil where there is no chunk
	if part.Chunk != nil {
		body = part.Chunk
	}
	c.reply(func(response wirecapnp.Response) error {
		out, err := response.NewReadSealed()
		if err != nil {
			return err //nolint:wrapcheck // frame wraps it.
		}
		out.SetSize(part.Size)
		if err := out.SetIndex(part.Index); err != nil {
			return err //nolint:wrapcheck // frame wraps it.
		}
		return out.SetSnapshot(part.Snapshot) //nolint:wrapcheck // frame wraps it.
	}, body)
	return nil
}

// tierTable lists what is in the bucket.
func (s *Server) tierTable(ctx context.Context, c *call) error {
	in, err := c.req.Message.TierTable()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	limit := int(in.MaxSegments())
	if limit == 0 {
		limit = tableSegmentsMax
	}
	got, err := r.TierTable(ctx, in.Since(), partition.Offset(in.From()), min(limit, tableSegmentsMax))
	if err != nil {
		return fault.Wrap("read tier table of "+id.String(), err)
	}
	c.reply(func(response wirecapnp.Response) error { return fillTable(response, got) }, nil)
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillTable(response wirecapnp.Response, table sealed.Excerpt) error {
	out, err := response.NewTierTable()
	if err != nil {
		return err
	}
	out.SetEpoch(uint64(table.Epoch))
	out.SetTableVersion(table.Version)
	out.SetTierEnd(uint64(table.TierEnd))
	out.SetLogStart(uint64(table.LogStart))
	out.SetMore(table.More)
	list, err := out.NewSegments(int32(len(table.Segments)))
	if err != nil {
		return err
	}
	for i, segment := range table.Segments {
		if err := sealed.FillSegment(list.At(i), segment); err != nil {
			return err
		}
	}
	return nil
}

// commitTier puts uploaded segments into the log's tier table.
func (s *Server) commitTier(ctx context.Context, c *call) error {
	in, err := c.req.Message.CommitTier()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	list, err := in.Segments()
	if err != nil {
		return unreadable(err)
	}
	segments, err := readSegments(list)
	if err != nil {
		return err
	}
	got, err := r.CommitTier(ctx, segments)
	if err != nil {
		return fault.Wrap("commit tier of "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewCommitTier, func(out tiercapnp.CommitTierReply) {
		out.SetTierEnd(uint64(got.TierEnd))
		out.SetTableVersion(got.TableVersion)
	})
}

func readSegments(list batchcapnp.Control_TierSegment_List) ([]sealed.Segment, error) {
	if n := list.Len(); n == 0 || n > commitSegmentsMax {
		return nil, fault.Errorf(fault.Invalid, "commit of %d segments, 1 to %d are allowed", n, commitSegmentsMax)
	}
	segments := make([]sealed.Segment, 0, list.Len())
	for i := range list.Len() {
		segment, err := sealed.ReadSegment(list.At(i))
		if err != nil {
			return nil, unreadable(err)
		}
		if segment.Key == "" || len(segment.Key) > keyBytesMax {
			return nil, fault.Errorf(fault.Invalid, "bucket key of %d bytes, 1 to %d are allowed", len(segment.Key), keyBytesMax)
		}
		segments = append(segments, segment)
	}
	return segments, nil
}

// exported notes that a manifest in the bucket covers the table: local data below its tier end may go.
func (s *Server) exported(ctx context.Context, c *call) error {
	in, err := c.req.Message.Exported()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	if err := r.Exported(ctx, sealed.Exported{
		Epoch:            partition.Epoch(in.Epoch()),
		TableVersion:     in.TableVersion(),
		TierEnd:          partition.Offset(in.TierEnd()),
		ManifestSequence: in.ManifestSequence(),
	}); err != nil {
		return fault.Wrap("note the export of "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewExported, func(tiercapnp.Done) {})
}

// collected notes that keys are gone from the bucket.
func (s *Server) collected(ctx context.Context, c *call) error {
	in, err := c.req.Message.Collected()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	list, err := in.Keys()
	if err != nil {
		return unreadable(err)
	}
	keys, err := readKeys(list)
	if err != nil {
		return err
	}
	if err := r.Collected(ctx, keys); err != nil {
		return fault.Wrap("note the collection of "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewCollected, func(tiercapnp.Done) {})
}

func readKeys(list capnp.TextList) ([]string, error) {
	if n := list.Len(); n == 0 || n > collectedKeysMax {
		return nil, fault.Errorf(fault.Invalid, "%d keys, 1 to %d are allowed", n, collectedKeysMax)
	}
	keys := make([]string, 0, list.Len())
	for i := range list.Len() {
		key, err := list.At(i)
		if err != nil {
			return nil, unreadable(err)
		}
		if key == "" || len(key) > keyBytesMax {
			return nil, fault.Errorf(fault.Invalid, "bucket key of %d bytes, 1 to %d are allowed", len(key), keyBytesMax)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
