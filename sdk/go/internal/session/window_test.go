package session_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seedqueue/sq/sdk/go/internal/session"
)

var seedCount = flag.Int("seeds", 3000, "how many random runs")

// broker is the other side as replication.md has it: next sequence and the last five batches a producer.
type broker struct {
	producers map[uint64]*producer
	log       []int
}

type producer struct {
	next       uint64
	remembered []uint64
}

func (b *broker) receive(pid uint64, sequence uint64, value int) session.Outcome {
	p := b.producers[pid]
	if p == nil {
		if sequence != 0 {
			return session.Forgotten
		}
		p = &producer{}
		b.producers[pid] = p
	}
	switch {
	case slices.Contains(p.remembered, sequence):
		return session.Stored
	case sequence < p.next:
		return session.Stored // an old duplicate
	case sequence > p.next:
		return session.Gap
	}
	b.log = append(b.log, value)
	p.next++
	p.remembered = append(p.remembered, sequence)
	if len(p.remembered) > session.Max {
		p.remembered = p.remembered[1:]
	}
	return session.Stored
}

// message is an attempt on the network. It may arrive late, also after its sender gave up, or never.
type message struct {
	pid, sequence uint64
	value         int
	flight        *session.Flight[int]
	told          bool // the sender has been given an outcome
}

// world is one random run.
type world struct {
	rng     *rand.Rand
	broker  broker
	window  session.Window[int]
	pid     uint64
	network []*message
	added   int
	results map[int]string // value → how it left
	left    []int
}

func (w *world) step() {
	switch w.rng.IntN(10) {
	case 0, 1:
		if w.window.Room() && w.added < 60 {
			w.window.Add(w.added, 1)
			w.added++
		}
	case 2, 3, 4:
		if f := w.window.Next(); f != nil {
			w.window.Sent(f)
			w.network = append(w.network, &message{pid: w.pid, sequence: f.Sequence, value: f.Value, flight: f})
		}
	case 5, 6, 7:
		w.deliver()
	case 8:
		w.trouble()
	default:
		if w.window.Broken() && w.window.Out() == 0 {
			w.pid++
			w.window.Restart(func(*session.Flight[int]) {})
		}
	}
	for f := w.window.Pop(); f != nil; f = w.window.Pop() {
		w.left = append(w.left, f.Value)
		switch {
		case f.Stored():
			w.results[f.Value] = "stored"
		case f.Lost():
			w.results[f.Value] = "lost"
		default:
			w.results[f.Value] = "failed"
		}
	}
}

// deliver lets a message arrive: mostly the oldest, at times another.
func (w *world) deliver() {
	if len(w.network) == 0 {
		return
	}
	i := 0
	if w.rng.IntN(4) == 0 {
		i = w.rng.IntN(len(w.network))
	}
	m := w.network[i]
	w.network = slices.Delete(w.network, i, i+1)
	outcome := session.Refused
	switch w.rng.IntN(12) {
	case 0: // refused before the broker looks: overloaded, not the leader
	case 1:
		outcome = session.Failed // refused for good
		if m.value%7 != 0 {      // always the same ones: it is a property of the batch
			outcome = w.broker.receive(m.pid, m.sequence, m.value)
		}
	default:
		outcome = w.broker.receive(m.pid, m.sequence, m.value)
	}
	if m.told {
		return
	}
	m.told = true
	if w.rng.IntN(8) == 0 {
		outcome = session.Unknown // the answer is lost
	}
	w.window.Settle(m.flight, outcome)
}

func (w *world) trouble() {
	switch w.rng.IntN(6) {
	case 0, 1: // the connection breaks: everything on it has no answer, and may yet arrive
		for _, m := range w.network {
			if !m.told {
				m.told = true
				w.window.Settle(m.flight, session.Unknown)
			}
		}
		w.network = slices.DeleteFunc(w.network, func(*message) bool { return w.rng.IntN(3) == 0 })
	case 2: // a batch's time is over
		w.window.Waiting(func(f *session.Flight[int]) {
			if w.rng.IntN(4) == 0 {
				w.window.Drop(f)
			}
		})
	case 3: // the broker forgets the producer, which takes days: nothing of it is on its way
		if len(w.network) == 0 && !w.perhaps() {
			delete(w.broker.producers, w.pid)
		}
	}
}

func (w *world) perhaps() (found bool) {
	w.window.Waiting(func(f *session.Flight[int]) { found = found || f.Perhaps() })
	return found
}

// check holds what the application relies on.
func (w *world) check() error {
	times := make(map[int]int)
	for _, value := range w.broker.log {
		times[value]++
	}
	for value, n := range times {
		if n > 1 {
			return fmt.Errorf("%d is stored %d times", value, n)
		}
	}
	for value, result := range w.results {
		if result == "stored" && times[value] == 0 {
			return fmt.Errorf("%d is acknowledged and not stored", value)
		}
		if result == "failed" && times[value] > 0 {
			return fmt.Errorf("%d failed for good and is stored", value)
		}
	}
	if !slices.IsSorted(w.left) {
		return fmt.Errorf("left out of order: %v", w.left)
	}
	last := -1
	for _, value := range w.broker.log {
		if w.results[value] != "stored" {
			continue // what is lost may appear anywhere
		}
		if value < last {
			return fmt.Errorf("acknowledged out of order: %v", w.broker.log)
		}
		last = value
	}
	return nil
}

func TestRandomNetworks(t *testing.T) {
	var seen struct{ stored, lost, failed, restarts int }
	for seed := range *seedCount {
		w := &world{rng: rand.New(rand.NewPCG(uint64(seed), 1)), pid: 1, results: make(map[int]string)}
		w.broker.producers = make(map[uint64]*producer)
		for range 1500 {
			w.step()
			if w.window.Out() > session.Max || w.window.Len() > session.Max {
				t.Fatalf("seed %d: %d of %d in flight", seed, w.window.Out(), w.window.Len())
			}
		}
		for len(w.network) > 0 { // late copies arrive in the end
			w.deliver()
		}
		if err := w.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, result := range w.results {
			switch result {
			case "stored":
				seen.stored++
			case "lost":
				seen.lost++
			default:
				seen.failed++
			}
		}
		seen.restarts += int(w.pid) - 1
	}
	// A run that never met a case proves nothing about it.
	if seen.stored == 0 || seen.lost == 0 || seen.failed == 0 || seen.restarts == 0 {
		t.Fatalf("blind: %+v", seen)
	}
	t.Logf("%+v", seen)
}

// After a time without trouble everything leaves.
func TestProgress(t *testing.T) {
	for seed := range 300 {
		w := &world{rng: rand.New(rand.NewPCG(uint64(seed), 2)), pid: 1, results: make(map[int]string)}
		w.broker.producers = make(map[uint64]*producer)
		for range 500 {
			w.step()
		}
		for range 200 { // heal: everything arrives and is answered
			if w.window.Broken() && w.window.Out() == 0 {
				w.pid++
				w.window.Restart(func(*session.Flight[int]) {})
			}
			for len(w.network) > 0 {
				m := w.network[0]
				w.network = w.network[1:]
				outcome := w.broker.receive(m.pid, m.sequence, m.value)
				if !m.told {
					w.window.Settle(m.flight, outcome)
				}
			}
			for f := w.window.Pop(); f != nil; f = w.window.Pop() {
				w.results[f.Value] = "left"
			}
			for f := w.window.Next(); f != nil; f = w.window.Next() {
				w.window.Sent(f)
				w.network = append(w.network, &message{pid: w.pid, sequence: f.Sequence, value: f.Value, flight: f})
			}
		}
		if w.window.Len() > 0 || len(w.results) != w.added {
			t.Fatalf("seed %d: %d batches are stuck, %d of %d left", seed, w.window.Len(), len(w.results), w.added)
		}
	}
}

// begin gives a window with n batches that are being sent.
func begin(t *testing.T, n int) (*session.Window[int], []*session.Flight[int]) {
	t.Helper()
	w := &session.Window[int]{}
	flights := make([]*session.Flight[int], n)
	for i := range flights {
		w.Add(i, 10)
		flights[i] = w.Next()
		w.Sent(flights[i])
	}
	return w, flights
}

// Repeats wait until nothing is outstanding, and go in order with the same sequences.
func TestRepeatsWaitForTheOthers(t *testing.T) {
	w, f := begin(t, 3)
	w.Settle(f[1], session.Unknown)
	if w.Next() != nil {
		t.Fatal("a repeat while others are outstanding")
	}
	w.Settle(f[2], session.Gap)
	w.Settle(f[0], session.Refused)
	w.Add(3, 10)
	for i, want := range []uint64{0, 10, 20, 30} {
		next := w.Next()
		if next == nil || next.Sequence != want {
			t.Fatalf("repeat %d is %+v, not sequence %d", i, next, want)
		}
		w.Sent(next)
	}
	if w.Broken() {
		t.Error("a gap behind a refused batch breaks the session")
	}
}

// A batch that failed for good breaks the session at once: what is behind it cannot be stored under its sequence.
func TestFailureBreaksTheSession(t *testing.T) {
	w, f := begin(t, 4)
	w.Settle(f[1], session.Failed)
	if !w.Broken() || w.Room() || w.Next() != nil {
		t.Fatal("the session goes on")
	}
	w.Settle(f[0], session.Stored)
	w.Settle(f[2], session.Gap)
	w.Settle(f[3], session.Unknown)
	renumbered := 0
	w.Restart(func(*session.Flight[int]) { renumbered++ })
	if renumbered != 1 || f[2].Sequence != 0 {
		t.Errorf("%d batches go on, the first with sequence %d", renumbered, f[2].Sequence)
	}
	if got := w.Pop(); got != f[0] || !got.Stored() {
		t.Errorf("first: %+v", got)
	}
	if got := w.Pop(); got != f[1] || got.Stored() || got.Lost() {
		t.Errorf("second: %+v", got)
	}
	if got := w.Pop(); got != nil {
		t.Errorf("third left: %+v", got)
	}
	w.Sent(w.Next())
	w.Settle(f[2], session.Stored)
	if w.Pop() != f[2] || w.Pop() != f[3] || !f[3].Lost() {
		t.Error("what may be stored is not lost")
	}
}

// A batch that became smaller ends its session, and the new one has no gap.
func TestAmend(t *testing.T) {
	w, f := begin(t, 2)
	w.Settle(f[0], session.Refused)
	w.Settle(f[1], session.Gap)
	w.Amend(f[0], 4)
	if !w.Broken() {
		t.Fatal("the session goes on")
	}
	w.Restart(func(*session.Flight[int]) {})
	if f[0].Sequence != 0 || f[1].Sequence != 4 {
		t.Errorf("sequences %d and %d", f[0].Sequence, f[1].Sequence)
	}
}
