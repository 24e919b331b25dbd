package sim

import "time"

// event is something that happens at a simulated time.
type event struct {
	at  time.Duration
	seq uint64 // among those of the same time, in the order in which they were planned
	do  func()
}

// agenda is what is planned, a heap by (at, seq).
type agenda struct {
	heap []event
	seq  uint64
}

func (a *agenda) before(i, j int) bool {
	x, y := &a.heap[i], &a.heap[j]
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}

func (a *agenda) push(at time.Duration, do func()) {
	a.seq++
	a.heap = append(a.heap, event{at, a.seq, do})
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.before(i, up) {
			break
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
}

func (a *agenda) pop() event {
	first, last := a.heap[0], len(a.heap)-1
	a.heap[0] = a.heap[last]
	a.heap[last] = event{}
	a.heap = a.heap[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			break
		}
		if next+1 < last && a.before(next+1, next) {
			next++
		}
		if !a.before(next, i) {
			break
		}
		a.heap[i], a.heap[next] = a.heap[next], a.heap[i]
		i = next
	}
	return first
}
