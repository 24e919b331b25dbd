package peer

import (
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// Receiver hands what other brokers send to a Handler.
type Receiver struct {
	self    partition.NodeID
	handler Handler
	log     *slog.Logger
	metrics *arrivals
}

// NewReceiver makes a Receiver.
func NewReceiver(self partition.NodeID, handler Handler, log *slog.Logger, registry prometheus.Registerer) (*Receiver, error) {
	metrics, err := newArrivals(registry)
	if err != nil {
		return nil, err
	}
	return &Receiver{self: self, handler: handler, log: log, metrics: metrics}, nil
}

// Receive takes a frame with its body (nil: none), which is the Receiver's from now on. It delivers the messages before it returns. answer is
// called once: when all that lies in the body has been released, so that the sender's credit bounds the memory here; or at once with an error
// where the frame cannot be right. in is not used after it.
func (r *Receiver) Receive(from partition.NodeID, in peercapnp.Frame, body *frame.Buffer, answer func(error)) {
	var content []byte
	if body != nil {
		content = body.Bytes()
	}
	d, err := decode(from, r.self, in, content)
	if err != nil {
		r.metrics.malformed.Inc()
		r.log.Warn("frame of a broker is refused", "node", uint64(from), "err", err)
		body.Release()
		answer(fault.Wrap("read frame", err))
		return
	}
	r.metrics.frames.Inc()
	r.metrics.bytes.Add(float64(len(content)))
	r.metrics.messages.Add(float64(len(d.messages)))
	if d.damaged > 0 {
		r.metrics.damaged.Add(float64(d.damaged))
		r.log.Warn("batches of a broker do not match their checksums", "node", uint64(from), "messages", d.damaged)
	}
	a := &arrival{body: body, answer: answer}
	a.held.Store(1) // by this loop
	for _, m := range d.messages {
		release := func() {}
		if holds(m.Quorum) {
			release = a.hold()
		}
		r.handler.Deliver(Delivery{Message: m, Release: release})
	}
	a.release()
}

// holds tells whether a message aliases the body.
func holds(m quorum.Message) bool {
	switch m := m.(type) {
	case quorum.Append:
		return len(m.Entries) > 0
	case quorum.Fetched:
		return len(m.Entries) > 0
	case quorum.Install:
		return len(m.Part) > 0
	default:
		return false
	}
}

// arrival is the memory of a frame, and its answer.
type arrival struct {
	body   *frame.Buffer
	answer func(error)
	held   atomic.Int64
}

// hold gives what ends one use of the memory.
func (a *arrival) hold() func() {
	a.held.Add(1)
	var released atomic.Bool
	return func() {
		if released.Swap(true) {
			panic("peer: delivery released twice")
		}
		a.release()
	}
}

func (a *arrival) release() {
	if a.held.Add(-1) == 0 {
		a.body.Release()
		a.answer(nil)
	}
}
