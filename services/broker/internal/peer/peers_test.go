package peer

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// counted is a body of bytes that counts its closings.
type counted struct {
	frame.Body
	closed *atomic.Int64
}

func (c counted) WriteTo(w io.Writer) (int64, error) { return c.Body.WriteTo(w) }
func (c counted) Close() error {
	c.closed.Add(1)
	return c.Body.Close()
}

// Every kind of message arrives as it was sent, over both connections, with its batches; bodies are closed and credit comes back.
func TestMessagesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		sent, want := sample(t)
		var closed atomic.Int64
		bodies := int64(0)
		for i := range sent {
			if sent[i].Body != nil {
				sent[i].Body = counted{sent[i].Body, &closed}
				bodies++
			}
			a.peers.Send(sent[i])
		}
		got := map[partition.ID]Message{}
		for range want {
			d := <-b.inbox.came
			got[d.Partition] = d.Message
			defer d.Release()
		}
		for _, m := range want {
			if diff := cmp.Diff(m, got[m.Partition]); diff != "" {
				t.Errorf("message %d (-sent +arrived):\n%s", m.Partition.Index, diff)
			}
		}
		synctest.Wait()
		if n := closed.Load(); n != bodies {
			t.Errorf("%d bodies closed %d times", bodies, n)
		}
		if n := a.counter(t, "sq_broker_peer_connections_count"); n != 2 {
			t.Errorf("%v connections, want one for each urgency", n)
		}
	})
}

// What lies in memory there is unanswered here: credit comes back with the release, and whoever has none waits.
func TestCreditBoundsTheMemoryThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		msg := stamped(t, 0, 1<<20-400)
		var closed atomic.Int64
		send := func() {
			m := appendOf(1, 0, 0, 1)
			m.Body = counted{frame.Bytes(msg), &closed}
			a.peers.Send(m)
		}
		for range 8 {
			send()
		}
		synctest.Wait()
		if got := len(b.inbox.came); got != 8 {
			t.Fatalf("%d messages came, want the credit's worth", got)
		}
		if got := a.peers.Room(2); got > 1<<20 {
			t.Fatalf("there is room for %d bytes although all credit is taken", got)
		}
		send()
		synctest.Wait()
		if got := len(b.inbox.came); got != 8 {
			t.Fatalf("%d messages came, more than the credit", got)
		}
		(<-b.inbox.came).Release()
		synctest.Wait()
		if got := len(b.inbox.came); got != 8 {
			t.Errorf("a release does not let the next message out: %d", got)
		}
		for range 8 {
			(<-b.inbox.came).Release()
		}
		synctest.Wait()
		if got := a.peers.Of(partitionID(1)).Room(2); got != creditBytes || closed.Load() != 9 {
			t.Errorf("at rest there is room for %d bytes, %d of 9 bodies closed", got, closed.Load())
		}
	})
}

// Messages of one partition keep their order, also an Append without batches behind one with batches, on a slow network.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		w.net.Delay(host(1), host(2), 30*time.Millisecond)
		const n = 200
		go func() {
			for i := range partition.Offset(n) {
				m := appendOf(1, 0, i, i+1)
				m.Body = frame.Bytes(stamped(t, uint64(i), 100))
				a.peers.Send(m)
				if i%7 == 0 {
					a.peers.Send(headOf(1, i+1, i, uint64(i)))
				}
				if i%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}()
		last := partition.Offset(0)
		for last < n {
			d := <-b.inbox.came
			a := d.Quorum.(quorum.Append)
			if a.Prev < last && a.Prev != a.Until || a.Until < last {
				t.Fatalf("[%d, %d) came behind %d", a.Prev, a.Until, last)
			}
			last = a.Until
			d.Release()
		}
	})
}

// An Append without batches waits for those with batches before it, although the urgent connection is free.
func TestHeadStaysBehindBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		for i := range partition.Offset(9) { // the last has no credit
			m := appendOf(1, 0, i, i+1)
			m.Body = frame.Bytes(stamped(t, uint64(i), 1<<20-400))
			a.peers.Send(m)
		}
		a.peers.Send(headOf(1, 20, 5, 1))
		a.peers.Send(appendOK(2)) // the same partition's, and urgent
		synctest.Wait()
		var releases []func()
		for len(b.inbox.came) > 0 {
			d := <-b.inbox.came
			if q, ok := d.Quorum.(quorum.Append); ok && q.Prev == 20 {
				t.Error("the high watermark has overtaken the batches")
			}
			releases = append(releases, d.Release)
		}
		if len(releases) != 9 {
			t.Errorf("%d messages came, want 8 with batches and the urgent one", len(releases))
		}
		for _, release := range releases {
			release()
		}
		for range 2 {
			(<-b.inbox.came).Release()
		}
	})
}

// While an answer is on its way, what is queued shares the next frame.
func TestFramesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		w.net.Delay(host(2), host(1), 100*time.Millisecond)
		const n = 5000
		for i := range n {
			a.peers.Send(Message{Partition: partitionID(i), From: member(1), To: member(2), Quorum: quorum.AppendOK{Epoch: 1, Match: 5}})
		}
		for range n {
			(<-b.inbox.came).Release()
		}
		if frames := a.counter(t, "sq_broker_peer_frames_sent_total"); frames > 100 {
			t.Errorf("%d messages took %v frames", n, frames)
		}
	})
}

// A body that cannot be read costs its own message: the others of its frame arrive and the connection stays.
func TestUnreadableBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.broker(1), w.broker(2)
		bad := appendOf(1, 0, 0, 1)
		bad.Body = torn{frame.Bytes(stamped(t, 0, 3000))}
		good := appendOf(2, 0, 0, 1)
		good.Body = frame.Bytes(stamped(t, 0, 100))
		a.peers.Send(bad)
		a.peers.Send(good)
		if d := <-b.inbox.came; d.Partition != partitionID(2) {
			t.Errorf("delivered %+v", d.Message)
		} else {
			d.Release()
		}
		synctest.Wait()
		if n := a.counter(t, "sq_broker_peer_unreadable_bodies_total"); n != 1 {
			t.Errorf("%v unreadable bodies are counted", n)
		}
		if n := a.counter(t, "sq_broker_peer_dials_total"); n != 1 {
			t.Errorf("%v connections were made", n)
		}
	})
}

// torn is a body of which only a part can be read.
type torn struct{ frame.Body }

func (b torn) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, b.Len()/2))
	return int64(n), errors.Join(err, errors.New("input/output error"))
}

// Send never keeps a caller waiting and never leaks a body: to itself, to nobody, to one that does not answer, and after the end.
func TestSendToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.broker(1)
		w.views.live(3, "b3:6164", 1) // nobody listens there
		var closed atomic.Int64
		sent := int64(0)
		send := func(to int) {
			m := appendOf(1, 0, 0, 1)
			m.To, m.Body = member(to), counted{frame.Bytes([]byte("x")), &closed}
			a.peers.Send(m)
			sent++
			synctest.Wait()
			if closed.Load() != sent {
				t.Errorf("to broker %d: %d of %d bodies are closed", to, closed.Load(), sent)
			}
		}
		for range 3 {
			send(1) // itself
			send(2) // not in the View
			send(3) // refuses
		}
		large := appendOf(1, frame.DefaultMaxBodyBytes+1, 0, 1)
		a.peers.Send(large)
		if large.Body.(*blob).closed != 1 {
			t.Error("a body above the limit is kept")
		}
		if n := a.counter(t, "sq_broker_peer_messages_dropped_total", "reason=unreachable"); n != 6 {
			t.Errorf("%v messages dropped as unreachable", n)
		}
		if room := a.peers.Room(3); room != 0 {
			t.Errorf("there is room for %d bytes to a broker that refuses", room)
		}
	})
}

// Neighbours are those who share a partition, as members, learners, or members of the epoch before.
func TestNeighbours(t *testing.T) {
	view := &topology.View{Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{
		partition.UUIDOf(1, 1): {{Value: topology.Assignment{Members: []partition.Member{member(1), member(2)}, Learners: []partition.Member{member(3)}}}},
		partition.UUIDOf(1, 2): {
			{Value: topology.Assignment{Members: []partition.Member{member(4), member(5)}}},
			{Value: topology.Assignment{Members: []partition.Member{member(6)}, Base: topology.Base{Members: []partition.Member{member(1)}}}},
		},
	}}
	want := map[partition.NodeID]struct{}{2: {}, 3: {}, 6: {}}
	if diff := cmp.Diff(want, neighbours(view, 1)); diff != "" {
		t.Error(diff)
	}
}

// The answer to a frame that lies is an error, and nothing of it is delivered.
func TestReceiverRefusesLies(t *testing.T) {
	w := newWorld(t)
	in := &inbox{came: make(chan Delivery, 100)}
	receiver, err := NewReceiver(2, in, w.broker(1).peers.cfg.Log, w.broker(9).registry)
	if err != nil {
		t.Fatal(err)
	}
	sent, _ := sample(t)
	message, body := encode(t, sent)
	buffer := frame.NewPool().Get(len(body) + 1)
	copy(buffer.Bytes(), body)
	answers := 0
	receiver.Receive(1, read(t, message), buffer, func(err error) {
		if answers++; err == nil || !strings.Contains(err.Error(), "belong to no message") {
			t.Errorf("answered %v", err)
		}
	})
	if answers != 1 || len(in.came) != 0 {
		t.Errorf("%d answers, %d messages delivered", answers, len(in.came))
	}
}
