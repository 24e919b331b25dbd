package standin

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func uuid(in batchcapnp.Uuid, _ error) partition.UUID { return partition.UUIDOf(in.Hi(), in.Lo()) }

func (n *Node) publish(req *frame.Request) {
	in, _ := req.Message.Publish()
	log, refused := n.log(uuid(in.Topic()), in.Partition())
	if refused != nil {
		_ = req.Fail(refused)
		return
	}
	h, err := batch.ParseHeader(req.Body)
	if err == nil {
		err = batch.CheckBody(req.Body)
	}
	if err != nil {
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_corrupt, "%v", err))
		return
	}
	n.mu.Lock()
	now := n.mu.now
	n.mu.Unlock()
	epoch := in.Epoch()
	base, last, duplicate := log.Append(req.Body, h, partition.Epoch(epoch), now)
	_ = req.Reply(func(res wirecapnp.Response) error {
		out, err := res.NewPublish()
		out.SetBaseOffset(base)
		out.SetLastOffset(last)
		out.SetOffsetKnown(true)
		out.SetDuplicate(duplicate)
		out.SetEpoch(epoch)
		out.SetHighWatermark(log.End())
		out.SetAppendTime(now)
		out.SetDurability(wirecapnp.Durability_fsyncQuorum)
		return err
	}, nil)
}

func (n *Node) fetch(ctx context.Context, req *frame.Request) {
	in, _ := req.Message.Fetch()
	log, refused := n.log(uuid(in.Topic()), in.Partition())
	if refused != nil {
		_ = req.Fail(refused)
		return
	}
	timeout := time.Duration(in.WaitMillis()) * time.Millisecond
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	maxBytes := int(in.MaxBytes())
	if maxBytes == 0 {
		maxBytes = 1 << 20
	}
	for {
		log.mu.Lock()
		end := log.mu.next
		if n.tierer {
			end = log.mu.tierEnd
		}
		start, localStart, grown := log.mu.start, log.mu.localStart, log.mu.grown
		body, next := log.read(in.Offset(), end, maxBytes)
		log.mu.Unlock()
		switch {
		case in.Offset() < start:
			_ = req.Fail(&frame.RemoteError{Kind: wirecapnp.ErrorKind_offsetTrimmed, Text: "below the log start", Offset: start})
			return
		case !n.tierer && in.Offset() < localStart:
			_ = req.Fail(&frame.RemoteError{Kind: wirecapnp.ErrorKind_offsetTiered, Text: "in the bucket", Offset: localStart})
			return
		case in.Offset() > end, n.tierer && in.Offset() == end:
			_ = req.Fail(&frame.RemoteError{Kind: wirecapnp.ErrorKind_offsetOutOfRange, Text: "beyond the end", Offset: end})
			return
		case len(body) == 0 && wait.Err() == nil && !n.tierer:
			select {
			case <-grown:
			case <-wait.Done():
			}
			continue
		}
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewFetch()
			out.SetEpoch(in.Epoch())
			out.SetHighWatermark(end)
			out.SetLogStart(start)
			out.SetLocalStart(localStart)
			out.SetNextOffset(next)
			out.SetDurability(wirecapnp.Durability_fsyncQuorum)
			return err
		}, frame.Bytes(body))
		return
	}
}

func (n *Node) listOffsets(req *frame.Request) {
	in, _ := req.Message.ListOffsets()
	log, refused := n.log(uuid(in.Topic()), in.Partition())
	if refused != nil {
		_ = req.Fail(refused)
		return
	}
	log.mu.Lock()
	from, to := log.mu.localStart, log.mu.next
	if n.tierer {
		from, to = log.mu.start, log.mu.tierEnd
	}
	start, localStart := log.mu.start, log.mu.localStart
	offset := start
	switch in.Which() {
	case wirecapnp.ListOffsetsRequest_Which_latest:
		offset = to
	case wirecapnp.ListOffsetsRequest_Which_time:
		offset = log.find(from, to, in.Time())
	}
	log.mu.Unlock()
	_ = req.Reply(func(res wirecapnp.Response) error {
		out, err := res.NewListOffsets()
		out.SetOffset(offset)
		out.SetEpoch(in.Epoch())
		out.SetHighWatermark(to)
		out.SetLogStart(start)
		out.SetLocalStart(localStart)
		return err
	}, nil)
}

func (n *Node) admin(req *frame.Request) {
	switch req.Message.Which() {
	case wirecapnp.Request_Which_seal:
		in, _ := req.Message.Seal()
		log, refused := n.log(uuid(in.Topic()), in.Partition())
		if refused != nil {
			_ = req.Fail(refused)
			return
		}
		end := log.End()
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewSeal()
			out.SetSealedEnd(end)
			out.SetHighWatermark(end)
			out.SetSealed(end > 0)
			return err
		}, nil)
	case wirecapnp.Request_Which_trim:
		in, _ := req.Message.Trim()
		log, refused := n.log(uuid(in.Topic()), in.Partition())
		if refused != nil {
			_ = req.Fail(refused)
			return
		}
		if !in.LocalOnly() {
			log.Trim(in.BeforeOffset())
		}
		log.mu.Lock()
		start, localStart := log.mu.start, log.mu.localStart
		log.mu.Unlock()
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewTrim()
			out.SetLogStart(start)
			out.SetLocalStart(localStart)
			return err
		}, nil)
	case wirecapnp.Request_Which_partitionState:
		in, _ := req.Message.PartitionState()
		log, refused := n.log(uuid(in.Topic()), in.Partition())
		if refused != nil {
			_ = req.Fail(refused)
			return
		}
		end := log.End()
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewPartitionState()
			out.SetHighWatermark(end)
			out.SetEnd(end)
			if err != nil {
				return err
			}
			out.SetActive(true)
			out.SetDurability(wirecapnp.Durability_fsyncQuorum)
			return replicas(out, end)
		}, nil)
	default:
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_invalid, "a stand-in does not serve this"))
	}
}

// replicas are the leader 1, a member 2 that is there, and a learner 3 that has nothing.
func replicas(out wirecapnp.PartitionState, end uint64) error {
	list, err := out.NewReplicas(3)
	if err != nil {
		return err
	}
	for i := range 3 {
		list.At(i).SetBroker(uint64(i + 1))
		list.At(i).SetLastHeardMillis(uint64(20 * i))
		if i < 2 {
			list.At(i).SetMatch(end)
		}
	}
	list.At(2).SetLearner(true)
	return nil
}
