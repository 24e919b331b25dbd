package frame

import (
	"context"
	"sync/atomic"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// States of a Pending.
const (
	stateAnswered uint32 = 1 << iota
	stateWritten
	stateAbandoned
)

// Pending is a call in flight.
type Pending struct {
	client *Client
	id     uint64
	which  wirecapnp.Request_Which
	state  atomic.Uint32
	sent   atomic.Bool
	done   chan struct{}
	reply  *Reply // set before stateAnswered, as err
	err    error
}

// Reply is the answer to a call.
type Reply struct {
	Response wirecapnp.Response // of the member that belongs to the request
	Body     []byte             // nil: none
	message  *Message
	buffer   *Buffer
}

// Release gives the answer's memory back; neither Response nor Body may be used afterwards. Call it once.
func (r *Reply) Release() {
	r.message.Release()
	r.buffer.Release()
	r.message, r.buffer, r.Body, r.Response = nil, nil, nil, wirecapnp.Response{}
}

// TakeBody hands the body over: it outlives Release, and as a Body it can be sent on as it is. nil if there is none.
func (r *Reply) TakeBody() *Buffer {
	buffer := r.buffer
	r.buffer, r.Body = nil, nil
	return buffer
}

// content is nil for a nil Buffer.
func (b *Buffer) content() []byte {
	if b == nil {
		return nil
	}
	return b.data
}

// Done is closed when the call has ended: it was answered or its connection ended, and its body is not needed any more.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait gives the answer. Call it once. If ctx ends first the call is given up: the error is a *ConnError, with Sent false if the request
// could still be withdrawn; the body may then be in use until Done. An answered error is a *RemoteError.
func (p *Pending) Wait(ctx context.Context) (*Reply, error) {
	select {
	case <-p.done:
		return p.reply, p.err
	default:
	}
	select {
	case <-p.done:
		return p.reply, p.err
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	if p.client.queue.Withdraw((*sentCall)(p)) {
		p.written(false) // the outbox has forgotten it
		if p.client.unregister(p) {
			p.answer(nil, &ConnError{Sent: false, Err: cause})
		}
		<-p.done // if it was not this call that ended it, the connection is about to
		return p.reply, p.err
	}
	if p.state.Or(stateAbandoned)&stateAnswered != 0 {
		<-p.done // the answer is there, the writer is about to say so
		return p.reply, p.err
	}
	return nil, &ConnError{Sent: true, Err: cause}
}

// sentCall is a Pending as its outbox sees it.
type sentCall Pending

// Written implements outbox.Outcome.
func (s *sentCall) Written(sent bool) { (*Pending)(s).written(sent) }

func (p *Pending) written(sent bool) {
	p.sent.Store(sent)
	if p.state.Or(stateWritten)&stateAnswered != 0 {
		p.finish()
	}
}

// answer ends the call, once.
func (p *Pending) answer(reply *Reply, err error) {
	p.reply, p.err = reply, err
	before := p.state.Or(stateAnswered)
	if before&stateAbandoned != 0 && reply != nil {
		reply.Release() // nobody waits
		p.reply = nil
	}
	if before&stateWritten != 0 {
		p.finish()
	}
}

func (p *Pending) finish() {
	p.client.inflight.Release() // first: who has waited for Done finds it released
	close(p.done)
}

// answers says which member of Response belongs to which of Request.
//
//nolint:gochecknoglobals // a constant table: Go has no constant arrays.
var answers = [...]wirecapnp.Response_Which{
	wirecapnp.Request_Which_hello:          wirecapnp.Response_Which_hello,
	wirecapnp.Request_Which_ping:           wirecapnp.Response_Which_pong,
	wirecapnp.Request_Which_metadata:       wirecapnp.Response_Which_metadata,
	wirecapnp.Request_Which_publish:        wirecapnp.Response_Which_publish,
	wirecapnp.Request_Which_fetch:          wirecapnp.Response_Which_fetch,
	wirecapnp.Request_Which_listOffsets:    wirecapnp.Response_Which_listOffsets,
	wirecapnp.Request_Which_initProducer:   wirecapnp.Response_Which_initProducer,
	wirecapnp.Request_Which_seal:           wirecapnp.Response_Which_seal,
	wirecapnp.Request_Which_trim:           wirecapnp.Response_Which_trim,
	wirecapnp.Request_Which_partitionState: wirecapnp.Response_Which_partitionState,
	wirecapnp.Request_Which_harvest:        wirecapnp.Response_Which_harvest,
	wirecapnp.Request_Which_readSealed:     wirecapnp.Response_Which_readSealed,
	wirecapnp.Request_Which_tierTable:      wirecapnp.Response_Which_tierTable,
	wirecapnp.Request_Which_commitTier:     wirecapnp.Response_Which_commitTier,
	wirecapnp.Request_Which_exported:       wirecapnp.Response_Which_exported,
	wirecapnp.Request_Which_collected:      wirecapnp.Response_Which_collected,
	wirecapnp.Request_Which_peer:           wirecapnp.Response_Which_peer,
	wirecapnp.Request_Which_positions:      wirecapnp.Response_Which_positions,
}

// check takes an answered error out, and refuses an answer of another kind than was asked for.
func (p *Pending) check(response wirecapnp.Response) error {
	if response.Which() == wirecapnp.Response_Which_error {
		remote, err := response.Error()
		if err != nil {
			return &ConnError{Sent: true, Err: formatErrorf(wirecapnp.ErrorKind_invalid, "response is unreadable: %v", err)}
		}
		return ReadError(remote)
	}
	if int(p.which) >= len(answers) || response.Which() != answers[p.which] {
		return &ConnError{Sent: true, Err: formatErrorf(wirecapnp.ErrorKind_invalid, "%v was answered by %v", p.which, response.Which())}
	}
	return nil
}
