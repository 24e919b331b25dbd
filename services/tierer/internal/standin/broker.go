package standin

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/tiercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Broker leads logs.
type Broker struct {
	Addr string

	t     testing.TB
	tasks sync.WaitGroup
	mu    struct {
		sync.Mutex

		logs    map[partition.ID]*Log
		changed chan struct{}
		calls   map[wirecapnp.Request_Which]int
		spoil   func(log *Log, base partition.Offset, position int64, body []byte) []byte
		refuse  func(wirecapnp.Request_Which) error
	}
}

// NewBroker starts a broker on any port of host; it ends with the test.
func NewBroker(t testing.TB, network transport.Network, host string) *Broker {
	t.Helper()
	b := &Broker{t: t}
	b.mu.logs = map[partition.ID]*Log{}
	b.mu.changed = make(chan struct{})
	b.mu.calls = map[wirecapnp.Request_Which]int{}
	listener, err := network.Listen(context.Background(), host+":0")
	if err != nil {
		t.Fatal(err)
	}
	b.Addr = listener.Addr().String()
	server := frame.NewServer(frame.ServerConfig{Handler: frame.HandlerFunc(b.handle), Accept: accept})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("stand-in broker: %v", err)
		}
		b.tasks.Wait()
	})
	return b
}

func accept(context.Context, frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	return frame.ServerInfo{NodeID: 1}, nil
}

// With looks at a log, or changes it, and lets who waits look again.
func (b *Broker) With(id partition.ID, do func(*Log)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.logs[id] == nil {
		b.mu.logs[id] = NewLog(id)
	}
	do(b.mu.logs[id])
	b.signal()
}

// WaitFor waits until a log is as a test wants it.
func (b *Broker) WaitFor(id partition.ID, what string, is func(*Log) bool) {
	b.t.Helper()
	timeout := clock.Real().NewTimer(20 * time.Second)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		changed, done := b.mu.changed, is(b.mu.logs[id])
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout.C():
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("not %s after 20 s: %d segments, tier end %d, exported %d", what, len(b.mu.logs[id].Segments), b.mu.logs[id].TierEnd, b.mu.logs[id].ExportedEnd)
		}
	}
}

// Spoil changes what ReadSealed answers; nil = nothing.
func (b *Broker) Spoil(change func(log *Log, base partition.Offset, position int64, body []byte) []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.spoil = change
}

// Refuse makes calls fail; nil = none.
func (b *Broker) Refuse(rule func(wirecapnp.Request_Which) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.refuse = rule
}

// Calls counts the calls of a kind.
func (b *Broker) Calls(which wirecapnp.Request_Which) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.calls[which]
}

func (b *Broker) signal() {
	close(b.mu.changed)
	b.mu.changed = make(chan struct{})
}

func (b *Broker) handle(ctx context.Context, request *frame.Request) {
	which := request.Message.Which()
	b.mu.Lock()
	b.mu.calls[which]++
	refuse := b.mu.refuse
	b.mu.Unlock()
	if refuse != nil {
		if err := refuse(which); err != nil {
			_ = request.Fail(faultwire.ToRemote(err))
			return
		}
	}
	b.tasks.Go(func() {
		var err error
		switch which {
		case wirecapnp.Request_Which_harvest:
			err = b.harvest(ctx, request)
		case wirecapnp.Request_Which_readSealed:
			err = b.readSealed(request)
		case wirecapnp.Request_Which_tierTable:
			err = b.tierTable(request)
		case wirecapnp.Request_Which_commitTier:
			err = b.commitTier(request)
		case wirecapnp.Request_Which_exported:
			err = b.exported(request)
		case wirecapnp.Request_Which_collected:
			err = b.collected(request)
		default:
			err = fault.Errorf(fault.Invalid, "not served")
		}
		if err != nil {
			_ = request.Fail(faultwire.ToRemote(err))
		}
	})
}

// find gives the log that a request is about; the caller holds the lock.
func (b *Broker) find(in interface {
	Topic() (batchcapnp.Uuid, error)
	Partition() uint32
}, err error,
) (*Log, error) {
	if err != nil {
		return nil, err
	}
	topic, err := in.Topic()
	if err != nil {
		return nil, err
	}
	log := b.mu.logs[partition.ID{Topic: partition.UUIDOf(topic.Hi(), topic.Lo()), Index: partition.Index(in.Partition())}]
	if log == nil {
		return nil, fault.Errorf(fault.NotLeader, "not the leader")
	}
	return log, nil
}

func (b *Broker) harvest(ctx context.Context, request *frame.Request) error {
	in, err := request.Message.Harvest()
	if err != nil {
		return err
	}
	most := int(in.MaxSegments())
	timeout := clock.Real().NewTimer(time.Duration(in.WaitMillis()) * time.Millisecond)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		var busy []*Log
		for _, log := range b.mu.logs {
			if log.hasWork() {
				busy = append(busy, log)
			}
		}
		if len(busy) > 0 {
			defer b.mu.Unlock()
			return request.Reply(func(response wirecapnp.Response) error { return fillHarvest(response, busy, most) }, nil)
		}
		changed := b.mu.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C():
			return request.Reply(func(response wirecapnp.Response) error { return fillHarvest(response, nil, most) }, nil)
		}
	}
}

func fillHarvest(response wirecapnp.Response, busy []*Log, most int) error {
	out, err := response.NewHarvest()
	if err != nil {
		return err
	}
	list, err := out.NewPartitions(int32(len(busy))) //nolint:gosec // few.
	if err != nil {
		return err
	}
	for i, log := range busy {
		if err := fillWork(list.At(i), log, most); err != nil {
			return err
		}
	}
	return nil
}

func fillWork(out tiercapnp.HarvestReply_Harvest, log *Log, most int) error {
	topic, err := out.NewTopic()
	if err != nil {
		return err
	}
	hi, lo := log.ID.Topic.Halves()
	topic.SetHi(hi)
	topic.SetLo(lo)
	out.SetPartition(uint32(log.ID.Index))
	out.SetEpoch(uint64(log.Epoch))
	out.SetTierEnd(uint64(log.TierEnd))
	out.SetExportedEnd(uint64(log.ExportedEnd))
	out.SetExportedVersion(log.ExportedVersion)
	out.SetTableVersion(log.Version)
	waiting := log.waiting()
	waiting = waiting[:min(most, len(waiting))]
	sealed, err := out.NewSealed(int32(len(waiting))) //nolint:gosec // few.
	if err != nil {
		return err
	}
	for i, s := range waiting {
		to := sealed.At(i)
		to.SetBase(uint64(s.Base))
		to.SetEnd(uint64(s.End))
		to.SetSize(uint64(s.Size)) //nolint:gosec // not negative.
		to.SetEpoch(uint64(s.Epoch))
		to.SetFirstAppendTime(s.FirstAppendTime)
		to.SetLastAppendTime(s.LastAppendTime)
		if err := to.SetSha256(s.SHA256[:]); err != nil {
			return err
		}
	}
	keys, err := out.NewCollectable(int32(len(log.Collectable))) //nolint:gosec // few.
	if err != nil {
		return err
	}
	for i, key := range log.Collectable {
		if err := keys.Set(i, key); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) readSealed(request *frame.Request) error {
	in, err := request.Message.ReadSealed()
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.find(in, err)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(log.Segments, func(s *Segment) bool { return s.Base == partition.Offset(in.Base()) })
	if at < 0 || in.Position() > uint64(log.Segments[at].Size) {
		return fault.Errorf(fault.NotFound, "no such segment")
	}
	s := log.Segments[at]
	position := int64(in.Position()) //nolint:gosec // not above the size.
	body := slices.Clone(s.Bytes[position:min(position+int64(in.MaxBytes()), s.Size)])
	if b.mu.spoil != nil {
		body = b.mu.spoil(log, s.Base, position, body)
	}
	return request.Reply(func(response wirecapnp.Response) error {
		out, err := response.NewReadSealed()
		if err != nil {
			return err
		}
		out.SetSize(uint64(s.Size))
		if position > 0 {
			return nil
		}
		if err := out.SetIndex(s.Index); err != nil {
			return err
		}
		return out.SetSnapshot(s.Snapshot)
	}, frame.Bytes(body))
}

func (b *Broker) tierTable(request *frame.Request) error {
	in, err := request.Message.TierTable()
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.find(in, err)
	if err != nil {
		return err
	}
	var segments []manifest.Segment
	if in.Since() < log.Version {
		for _, s := range log.Tiered {
			if s.End > partition.Offset(in.From()) {
				segments = append(segments, s)
			}
		}
	}
	more := len(segments) > int(in.MaxSegments())
	if more {
		segments = segments[:in.MaxSegments()]
	}
	return request.Reply(func(response wirecapnp.Response) error {
		out, err := response.NewTierTable()
		if err != nil {
			return err
		}
		out.SetEpoch(uint64(log.Epoch))
		out.SetTableVersion(log.Version)
		out.SetTierEnd(uint64(log.TierEnd))
		out.SetLogStart(uint64(log.LogStart))
		out.SetMore(more)
		list, err := out.NewSegments(int32(len(segments))) //nolint:gosec // few.
		if err != nil {
			return err
		}
		for i, s := range segments {
			if err := fillSegment(list.At(i), s); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}

func fillSegment(out batchcapnp.Control_TierSegment, s manifest.Segment) error {
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
	return out.SetKey(s.Key)
}
