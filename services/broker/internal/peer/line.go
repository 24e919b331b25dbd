package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// errSilent: a broker was asked and has said nothing for silenceMax.
var errSilent = errors.New("broker is silent although asked")

// line is one connection to a broker, made when there is something to send, and made again. Its goroutine is run's.
type line struct {
	pair   *pair
	urgent bool
	wake   chan struct{} // capacity 1: something has changed
	cut    chan struct{} // capacity 1: the connection, or the wait for the next attempt, is to end

	// The pair's mutex guards the rest.
	queue   *queue
	down    bool      // the last attempt has failed, the next is not due: nothing is taken
	asked   int       // frames and pings without an answer
	heard   time.Time // when the last answer came, or when something was asked first
	pinging bool
}

func newLine(p *pair, urgent bool) *line {
	return &line{pair: p, urgent: urgent, wake: make(chan struct{}, 1), cut: make(chan struct{}, 1), queue: newQueue()}
}

// run keeps the connection until ctx ends.
func (l *line) run(ctx context.Context) {
	retry := l.pair.peers.newBackoff()
	clock := l.pair.peers.cfg.Clock
	for {
		at, ok := l.await(ctx)
		if !ok {
			return
		}
		client, err := l.connect(ctx, at)
		if err != nil {
			l.unreachable(ctx, at, err, retry.Next())
			continue
		}
		born := clock.Now()
		err = l.pump(ctx, client, at)
		l.ended(at, err)
		if clock.Now().Sub(born) >= settled {
			retry.Reset()
		} else if ctx.Err() == nil {
			l.pause(ctx, retry.Next())
		}
	}
}

// await waits for a reason to connect, and a place to connect to. What is queued for a broker that is nowhere is dropped.
func (l *line) await(ctx context.Context) (target, bool) {
	for ctx.Err() == nil {
		select {
		case <-l.cut: // of the connection before: a place that changes from here on cuts anew
		default:
		}
		l.pair.mu.Lock()
		at := l.pair.mu.target
		wanted := l.queue.queued > 0 || l.urgent && l.pair.mu.watched
		if at.addr == "" {
			l.queue.clear(unreachable)
		}
		l.pair.unlock()
		if wanted && at.addr != "" {
			return at, true
		}
		select {
		case <-l.wake:
		case <-l.cut:
		case <-ctx.Done():
		}
	}
	return target{}, false
}

// connect dials and says hello. It takes no longer than a silence.
func (l *line) connect(ctx context.Context, at target) (*frame.Client, error) {
	p := l.pair.peers
	if l.urgent {
		l.pair.tried()
	}
	ctx, cancel := context.WithTimeout(ctx, silenceMax)
	defer cancel()
	conn, err := p.cfg.Network.Dial(ctx, at.addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{Pool: p.pool}) //nolint:contextcheck // the connection outlives the dial.
	info, err := client.Hello(ctx, frame.HelloParams{
		Role: wirecapnp.Role_broker, ClientID: strconv.FormatUint(uint64(p.cfg.Self), 10), Software: p.cfg.Software, ClusterID: p.cfg.Cluster.String(),
	})
	if err == nil && partition.NodeID(info.NodeID) != l.pair.node {
		err = fault.Errorf(fault.Conflict, "broker %d answers there", info.NodeID)
	}
	if err != nil {
		_ = client.Close() // the failed Hello is what counts
		return nil, fmt.Errorf("say hello: %w", err)
	}
	p.metrics.dials.Inc()
	p.metrics.connections.Inc()
	return client, nil
}

// unreachable drops what is queued and waits before the next attempt; nothing is taken meanwhile.
func (l *line) unreachable(ctx context.Context, at target, err error, wait time.Duration) {
	if ctx.Err() != nil {
		return
	}
	l.pair.peers.metrics.dialFailures.Inc()
	l.pair.peers.cfg.Log.Debug("broker is not reached", "node", uint64(l.pair.node), "addr", at.addr, "err", err)
	l.pair.mu.Lock()
	l.down = true
	l.queue.clear(unreachable)
	l.pair.unlock()
	if l.urgent {
		l.pair.failed(at, err)
	}
	l.pause(ctx, wait)
	l.pair.mu.Lock()
	l.down = false
	l.pair.mu.Unlock()
}

// pause waits, or until the broker is elsewhere.
func (l *line) pause(ctx context.Context, wait time.Duration) {
	timer := l.pair.peers.cfg.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.cut:
	case <-ctx.Done():
	}
}

// ended takes note of why a connection has ended.
func (l *line) ended(at target, err error) {
	l.pair.peers.metrics.connections.Dec()
	l.pair.peers.cfg.Log.Debug("connection to broker ended", "node", uint64(l.pair.node), "addr", at.addr, "err", err)
	if !l.urgent {
		return
	}
	l.pair.tried()
	if errors.Is(err, errSilent) {
		l.pair.judge(true, err)
		signal(l.pair.bulk.cut) // it goes the same way
	}
}

// pump sends what is queued until the connection ends, and tells why it did.
func (l *line) pump(ctx context.Context, client *frame.Client, at target) error {
	var answers sync.WaitGroup
	defer answers.Wait()
	defer func() { _ = client.Close() }() // the calls in flight end with it
	clock := l.pair.peers.cfg.Clock
	l.pair.mu.Lock()
	l.asked, l.heard, l.pinging = 0, clock.Now(), false
	l.pair.mu.Unlock()
	if l.urgent {
		l.pair.answered()
	}
	timer := clock.NewTimer(pingEvery)
	defer timer.Stop()
	for ping := (time.Time{}); ; {
		now := clock.Now()
		due, err := l.flush(ctx, client, &answers, now)
		if err == nil && l.urgent {
			if !ping.After(now) {
				ping, err = now.Add(pingEvery), l.ping(ctx, client, &answers)
			}
			silent := l.silentAt()
			if err == nil && !silent.IsZero() && !silent.After(now) {
				err = errSilent
			}
			due = earlier(due, earlier(ping, silent))
		}
		if err != nil {
			return err
		}
		timer.Stop()
		if !due.IsZero() {
			timer.Reset(due.Sub(now))
		}
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // of the whole process's end.
		case <-client.Done():
			return client.Err() //nolint:wrapcheck // says what was attempted.
		case <-l.cut:
			return fmt.Errorf("broker %d has moved from %s", l.pair.node, at.addr)
		case <-l.wake:
		case <-timer.C():
		}
	}
}

// earlier gives the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// flush sends what may go out, and tells when something else may.
func (l *line) flush(ctx context.Context, client *frame.Client, answers *sync.WaitGroup, now time.Time) (time.Time, error) {
	for {
		l.pair.mu.Lock()
		out, due := l.queue.take(now)
		l.pair.unlock()
		if out == nil {
			return due, nil
		}
		if err := l.sendFrame(ctx, client, answers, out); err != nil {
			return due, err
		}
	}
}

func (l *line) sendFrame(ctx context.Context, client *frame.Client, answers *sync.WaitGroup, out *outgoing) error {
	m := l.pair.peers.metrics
	all := &bodies{failed: func(err error) {
		m.unread.Inc()
		if errors.Is(err, io.ErrUnexpectedEOF) { // a later leader has cut the log of one that led: what waited here is nobody's any more
			l.pair.peers.cfg.Log.Warn("batches were cut before they were sent", "err", err)
			return
		}
		l.pair.peers.cfg.Log.Error("batches cannot be read to be replicated", "err", err)
	}}
	for i := range out.messages {
		if body := out.messages[i].Body; body != nil {
			all.add(body)
		}
	}
	l.ask()
	pending, err := client.StartBody(ctx, fillFrame(out.messages), all)
	if err != nil {
		l.answered(out, err)
		return err //nolint:wrapcheck // says what was attempted.
	}
	m.frames.Inc()
	m.messages.Add(float64(len(out.messages)))
	m.bytes.Add(float64(out.bytes))
	answers.Go(func() { //nolint:contextcheck // the answer may come behind the call.
		reply, err := pending.Wait(context.Background()) // it ends with the connection
		if err == nil {
			reply.Release()
		}
		l.answered(out, err)
	})
	return nil
}

// answered gives a frame's credit back.
func (l *line) answered(out *outgoing, err error) {
	p := l.pair.peers
	if err != nil {
		why := lost
		if _, ok := errors.AsType[*frame.RemoteError](err); ok {
			why = refused
		}
		p.metrics.dropped[why].Add(float64(len(out.messages)))
		p.cfg.Log.Debug("messages were not taken", "node", uint64(l.pair.node), "err", err)
	}
	l.pair.mu.Lock()
	l.queue.answered(out)
	l.hear()
	more := l.queue.queued > 0
	l.pair.unlock()
	if more {
		signal(l.wake)
	}
}

// ping asks a watched broker whether it is there. It does not ask again before that is answered.
func (l *line) ping(ctx context.Context, client *frame.Client, answers *sync.WaitGroup) error {
	l.pair.mu.Lock()
	wanted := l.pair.mu.watched && !l.pinging
	l.pinging = l.pinging || wanted
	l.pair.mu.Unlock()
	if !wanted {
		return nil
	}
	clock, pings := l.pair.peers.cfg.Clock, l.pair.peers.metrics.pings
	start := clock.Now()
	l.ask()
	pending, err := client.Start(ctx, func(request wirecapnp.Request) error {
		request.SetPing()
		return nil
	})
	if err != nil {
		l.pong()
		return err //nolint:wrapcheck // says what was attempted.
	}
	answers.Go(func() { //nolint:contextcheck // the answer may come behind the call.
		if reply, err := pending.Wait(context.Background()); err == nil { // it ends with the connection
			reply.Release()
			pings.Observe(clock.Now().Sub(start).Seconds())
		}
		l.pong()
	})
	return nil
}

func (l *line) pong() {
	l.pair.mu.Lock()
	defer l.pair.mu.Unlock()
	l.pinging = false
	l.hear()
}

// ask says that something is asked.
func (l *line) ask() {
	l.pair.mu.Lock()
	defer l.pair.mu.Unlock()
	if l.asked == 0 {
		l.heard = l.pair.peers.cfg.Clock.Now()
	}
	l.asked++
}

// hear says that something was answered, or will not be. It needs the pair's mutex.
func (l *line) hear() {
	l.asked--
	l.heard = l.pair.peers.cfg.Clock.Now()
}

// silentAt tells when the broker will have been silent for too long; zero = nothing is asked.
func (l *line) silentAt() time.Time {
	l.pair.mu.Lock()
	defer l.pair.mu.Unlock()
	if l.asked == 0 {
		return time.Time{}
	}
	return l.heard.Add(silenceMax)
}
