package peer

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

const nobody = "[]"

// atOnce is enough for a redial that comes while the port is being closed, and for the one behind it.
const atOnce = 5 * redialFirst

// neighbours makes two brokers that share a partition, and lets them meet.
func (w *world) neighbours() (a, b *broker) {
	a, b = w.broker(1), w.broker(2)
	w.views.share(1, 2)
	time.Sleep(2 * settled)
	if a.suspects() != nobody || b.suspects() != nobody {
		w.t.Fatalf("suspected at rest: %v, %v", a.suspects(), b.suspects())
	}
	return a, b
}

// wait lets time pass and wants the suspicion then.
func (a *broker) wait(t *testing.T, d time.Duration, want string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := a.suspects(); got != want {
		t.Errorf("after %v suspected %v, want %v", d, got, want)
	}
}

// Silence is suspicious after 1.5 s, in either direction of a cut and in both; the first answer ends it. Changed tells of both.
func TestSilence(t *testing.T) {
	for name, cut := range map[string]func(*world){
		"both ways":        func(w *world) { w.net.Cut(host(1), host(2)) },
		"what is asked":    func(w *world) { w.net.CutOneWay(host(1), host(2)) },
		"what is answered": func(w *world) { w.net.CutOneWay(host(2), host(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, _ := w.neighbours()
				changed := a.peers.Changed()
				cut(w)
				a.wait(t, silenceMax-time.Millisecond, nobody)
				a.wait(t, pingEvery+2*time.Millisecond, "[{2 1}]")
				<-changed
				changed = a.peers.Changed()
				a.wait(t, time.Minute, "[{2 1}]")
				w.net.Heal(host(1), host(2))
				a.wait(t, 2*silenceMax+redialLast, nobody)
				<-changed
			})
		})
	}
}

// A delay that is shorter than the silence allowed is not suspicious, however long it lasts.
func TestDelayIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, _ := w.neighbours()
		changed := a.peers.Changed()
		w.net.Delay(host(1), host(2), 600*time.Millisecond)
		w.net.Delay(host(2), host(1), 600*time.Millisecond)
		a.wait(t, time.Minute, nobody)
		select {
		case <-changed:
			t.Error("somebody was suspected meanwhile")
		default:
		}
	})
}

// A broker whose process is gone resets its connections and refuses the next: it is suspected at once, and not any more when it is back, or in
// its next life elsewhere.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.neighbours()
		b.stop()
		a.wait(t, atOnce, "[{2 1}]")
		w.serve(b, cluster, 2)
		a.wait(t, redialLast+settled, nobody)
		b.stop()
		a.wait(t, atOnce, "[{2 1}]")
		w.views.live(2, "b2:7000", 2)
		synctest.Wait()
		b.addr = "b2:7000"
		w.serve(b, cluster, 2)
		a.wait(t, redialLast, nobody)
		a.peers.Send(appendOK(2))
		if d := <-b.inbox.came; d.Quorum.(quorum.AppendOK).Match != 5 {
			t.Errorf("delivered %+v", d.Message)
		}
	})
}

func appendOK(to int) Message {
	return Message{Partition: partitionID(1), From: member(1), To: member(to), Quorum: quorum.AppendOK{Epoch: 1, Match: 5}}
}

// A broker whose lease has lapsed is still reached where it was: what is committed does not hang on etcd.
func TestLapsedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.neighbours()
		w.views.live(2, "", 0)
		a.wait(t, 10*time.Second, nobody)
		a.peers.Send(appendOK(2))
		<-b.inbox.came
	})
}

// Only those who share a partition are watched: others are neither dialled nor suspected.
func TestStrangersAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.neighbours()
		w.views.share(1)
		time.Sleep(neighboursEvery)
		b.stop()
		a.wait(t, time.Minute, nobody)
		a.peers.Send(appendOK(2)) // finds that out
		a.wait(t, time.Minute, nobody)
		w.views.share(1, 2)
		a.wait(t, neighboursEvery+2*redialLast, "[{2 1}]")
	})
}

// Another cluster, another broker and another version behind the address are not talked to; they are suspected as if they were silent.
func TestRefusals(t *testing.T) {
	for name, serve := range map[string]func(*world, *broker){
		"another cluster": func(w *world, b *broker) { w.serve(b, partition.UUIDOf(1, 1), 2) },
		"another broker":  func(w *world, b *broker) { w.serve(b, cluster, 3) },
		"garbage":         func(w *world, b *broker) { w.answer(b, []byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"another version": func(w *world, b *broker) { w.answer(b, versionRefused()) },
		"half an answer":  func(w *world, b *broker) { w.answer(b, versionRefused()[:20]) },
		"silence":         func(w *world, b *broker) { w.answer(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.neighbours()
				b.stop()
				serve(w, b)
				var closed atomic.Int64
				m := appendOf(1, 0, 0, 1)
				m.Body = counted{frame.Bytes(stamped(t, 0, 10)), &closed}
				a.peers.Send(m)
				a.wait(t, 2*silenceMax+redialLast, "[{2 1}]")
				if len(b.inbox.came) > 0 || closed.Load() != 1 {
					t.Errorf("%d messages came, the body was closed %d times", len(b.inbox.came), closed.Load())
				}
				b.stop()
				w.serve(b, cluster, 2)
				a.wait(t, 2*silenceMax+redialLast, nobody)
			})
		})
	}
}

// versionRefused is a well-formed message that is no answer: a Response root without content and with an id that nobody asked with.
func versionRefused() []byte {
	out := binary.LittleEndian.AppendUint32(nil, 0)
	out = binary.LittleEndian.AppendUint32(out, 4)
	out = append(out, 0, 0, 0, 0, 2, 0, 1, 0) // a struct of two words and a pointer
	return append(out, make([]byte, 24)...)
}

// answer opens the broker's port and answers every connection with the same bytes, and then nothing.
func (w *world) answer(b *broker, with []byte) {
	listener, err := w.net.At(host(b.id)).Listen(w.t.Context(), b.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	var conns []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			_, _ = conn.Write(with)
		}
	}()
	b.stop = func() {
		_ = listener.Close()
		<-ended
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// A connection that dies under way loses what was on it, closes its bodies and gives its credit back; the next one goes on.
func TestConnectionDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.neighbours()
		var closed atomic.Int64
		send := func(n int) {
			for i := range n {
				m := appendOf(1, 0, partition.Offset(i), partition.Offset(i+1))
				m.Body = counted{frame.Bytes(stamped(t, uint64(i), 200_000)), &closed}
				a.peers.Send(m)
			}
		}
		send(1)
		(<-b.inbox.came).Release()
		w.net.Cut(host(1), host(2)) // half a frame gets through at most, then nothing
		send(20)
		time.Sleep(100 * time.Millisecond)
		w.net.Reset(host(1), host(2))
		w.net.Heal(host(1), host(2))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for len(b.inbox.came) > 0 {
			(<-b.inbox.came).Release()
		}
		time.Sleep(time.Second)
		if n := closed.Load(); n != 21 {
			t.Errorf("21 bodies were closed %d times", n)
		}
		if room := a.peers.Of(partitionID(1)).Room(2); room != creditBytes {
			t.Errorf("there is room for %d bytes, want all credit back", room)
		}
		send(1)
		(<-b.inbox.came).Release()
	})
}

// A silence ends both connections: what is unanswered on either is lost, and whoever waits for room learns that there is none.
func TestSilenceEndsBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.neighbours()
		var closed atomic.Int64
		send := func() {
			m := appendOf(1, 0, 0, 1)
			m.Body = counted{frame.Bytes(stamped(t, 0, 500_000)), &closed}
			a.peers.Send(m)
		}
		send()
		(<-b.inbox.came).Release()
		w.net.Cut(host(1), host(2))
		for range 30 {
			send()
		}
		a.wait(t, 2*silenceMax+time.Second, "[{2 1}]")
		if n, room := closed.Load(), a.peers.Room(2); n != 31 || room != 0 {
			t.Errorf("31 bodies were closed %d times, there is room for %d bytes to a broker that is cut off", n, room)
		}
		w.net.Heal(host(1), host(2))
		a.wait(t, 2*silenceMax+redialLast, nobody)
		if room := a.peers.Room(2); room != creditBytes {
			t.Errorf("there is room for %d bytes again", room)
		}
	})
}
