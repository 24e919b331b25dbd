package sqtest

import (
	"context"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// defaultFetchBytes is what a fetch that names no size gets.
const defaultFetchBytes = 1 << 20

// Handle implements frame.Handler. Requests are answered one after the other but for fetches that wait.
func (s *Server) Handle(ctx context.Context, req *frame.Request) {
	call, known := callOf(req.Message.Which())
	if !known {
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_unsupportedVersion, "the test server does not know %v", req.Message.Which()))
		return
	}
	f, bad := s.meet(call)
	if !bad {
		s.carryOut(ctx, call, req, func(answer reply) { answer.to(req) })
		return
	}
	if f.after {
		s.carryOut(ctx, call, req, func(reply) { s.spoil(f, req) })
		return
	}
	s.spoil(f, req)
}

func callOf(which wirecapnp.Request_Which) (Call, bool) {
	switch which {
	case wirecapnp.Request_Which_publish:
		return Publish, true
	case wirecapnp.Request_Which_fetch:
		return Fetch, true
	case wirecapnp.Request_Which_metadata:
		return Metadata, true
	case wirecapnp.Request_Which_listOffsets:
		return ListOffsets, true
	case wirecapnp.Request_Which_initProducer:
		return InitProducer, true
	default:
		return 0, false
	}
}

// spoil does what the fault says instead of an answer.
func (s *Server) spoil(f Fault, req *frame.Request) {
	switch {
	case f.drop:
		s.dropConnection(req.Session.RemoteAddr())
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_unavailable, "dropped")) // nobody hears it
	case f.hang:
		session := req.Session
		s.running.Go(func() {
			<-session.Done()
			_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_unavailable, "dropped")) // nobody hears it
		})
	default:
		_ = req.Fail(f.answer)
	}
}

// reply is an answer that is ready.
type reply struct {
	fill func(wirecapnp.Response) error
	body [][]byte
	err  *frame.RemoteError
}

func (r reply) to(req *frame.Request) {
	if r.err != nil {
		_ = req.Fail(r.err) // where it fails the connection has ended
		return
	}
	var body frame.Body
	if len(r.body) > 0 {
		body = frame.Bytes(r.body...)
	}
	_ = req.Reply(r.fill, body) // where it fails the connection has ended
}

func refuse(kind wirecapnp.ErrorKind, format string, args ...any) reply {
	return reply{err: frame.Errorf(kind, format, args...)}
}

// carryOut makes the answer; only a fetch may come later.
func (s *Server) carryOut(ctx context.Context, call Call, req *frame.Request, answer func(reply)) {
	switch call {
	case Publish:
		answer(s.publish(req))
	case Fetch:
		s.fetch(ctx, req, answer)
	case Metadata:
		answer(s.metadata(req))
	case ListOffsets:
		answer(s.listOffsets(req))
	default:
		s.mu.Lock()
		s.mu.lastPid++
		pid := s.mu.lastPid
		s.mu.Unlock()
		answer(reply{fill: func(out wirecapnp.Response) error {
			init, err := out.NewInitProducer()
			init.SetProducerId(pid)
			return err
		}})
	}
}

func (s *Server) publish(req *frame.Request) reply {
	in, err := req.Message.Publish()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "publish is unreadable: %v", err)
	}
	id, err := in.Topic()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "publish is unreadable: %v", err)
	}
	t, p, err := s.find(id.Hi(), id.Lo(), in.Partition())
	if err != nil {
		return refuse(wirecapnp.ErrorKind_notFound, "%v", err)
	}
	msg := append([]byte(nil), req.Body...)
	h, err := batch.ParseHeader(msg)
	if err == nil {
		err = h.CheckPublish()
	}
	if err == nil {
		err = batch.CheckBody(msg)
	}
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "%v", err)
	}
	mapVersion, batchMax := s.version(t)
	if h.Size > batchMax {
		return refuse(wirecapnp.ErrorKind_tooLarge, "batch of %d bytes, the limit is %d", h.Size, batchMax)
	}
	if h.MapVersion != 0 && h.MapVersion < mapVersion {
		return refuse(wirecapnp.ErrorKind_staleRouting, "routed by version %d, the map is %d", h.MapVersion, mapVersion)
	}
	r, remote := p.append(h, msg)
	if remote != nil {
		return reply{err: remote}
	}
	none := in.AckNone()
	return reply{fill: func(out wirecapnp.Response) error {
		ack, err := out.NewPublish()
		if err != nil {
			return err
		}
		ack.SetBaseOffset(r.base)
		ack.SetLastOffset(r.last)
		ack.SetOffsetKnown(r.known && !none)
		ack.SetDuplicate(r.duplicate)
		ack.SetEpoch(1)
		ack.SetHighWatermark(r.end)
		ack.SetLogStart(r.start)
		ack.SetAppendTime(r.appendTime)
		ack.SetDurability(wirecapnp.Durability_none)
		return nil
	}}
}

func (s *Server) fetch(ctx context.Context, req *frame.Request, answer func(reply)) {
	in, err := req.Message.Fetch()
	if err != nil {
		answer(refuse(wirecapnp.ErrorKind_invalid, "fetch is unreadable: %v", err))
		return
	}
	id, err := in.Topic()
	if err != nil {
		answer(refuse(wirecapnp.ErrorKind_invalid, "fetch is unreadable: %v", err))
		return
	}
	_, p, err := s.find(id.Hi(), id.Lo(), in.Partition())
	if err != nil {
		answer(refuse(wirecapnp.ErrorKind_notFound, "%v", err))
		return
	}
	offset, maxBytes := in.Offset(), int(in.MaxBytes())
	if maxBytes == 0 {
		maxBytes = defaultFetchBytes
	}
	r, changed := fetchFrom(p, offset, maxBytes)
	wait := time.Duration(in.WaitMillis()) * time.Millisecond
	if changed == nil || wait == 0 {
		answer(r)
		return
	}
	s.running.Go(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for changed != nil {
			select {
			case <-changed:
				r, changed = fetchFrom(p, offset, maxBytes)
			case <-timer.C:
				changed = nil
			case <-ctx.Done():
				changed = nil
			}
		}
		answer(r)
	})
}

// fetchFrom makes an answer; changed is not nil if it is worth waiting for a better one.
func fetchFrom(p *partition, offset uint64, maxBytes int) (reply, <-chan struct{}) {
	body, next, around, changed, remote := p.read(offset, maxBytes)
	if remote != nil {
		return reply{err: remote}, nil
	}
	if len(body) > 0 {
		changed = nil
	}
	return reply{body: body, fill: func(out wirecapnp.Response) error {
		fetched, err := out.NewFetch()
		if err != nil {
			return err
		}
		fetched.SetEpoch(1)
		fetched.SetHighWatermark(around.end)
		fetched.SetLogStart(around.start)
		fetched.SetLocalStart(around.start)
		fetched.SetNextOffset(next)
		fetched.SetDurability(wirecapnp.Durability_none)
		return nil
	}}, changed
}

func (s *Server) listOffsets(req *frame.Request) reply {
	in, err := req.Message.ListOffsets()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "listOffsets is unreadable: %v", err)
	}
	id, err := in.Topic()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "listOffsets is unreadable: %v", err)
	}
	_, p, err := s.find(id.Hi(), id.Lo(), in.Partition())
	if err != nil {
		return refuse(wirecapnp.ErrorKind_notFound, "%v", err)
	}
	around := p.bounds()
	offset := around.start
	switch in.Which() {
	case wirecapnp.ListOffsetsRequest_Which_latest:
		offset = around.end
	case wirecapnp.ListOffsetsRequest_Which_time:
		offset = p.at(in.Time())
	}
	return reply{fill: func(out wirecapnp.Response) error {
		list, err := out.NewListOffsets()
		if err != nil {
			return err
		}
		list.SetOffset(offset)
		list.SetEpoch(1)
		list.SetHighWatermark(around.end)
		list.SetLogStart(around.start)
		list.SetLocalStart(around.start)
		return nil
	}}
}
