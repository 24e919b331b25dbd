package session

// Max is how many batches of a session may be without an answer.
const Max = 5

// gapsMax is how often a batch whose predecessors are stored may be called out of order before the session counts as broken: once can be
// two requests that overtook each other.
const gapsMax = 2

// Outcome is what became of an attempt.
type Outcome uint8

// The outcomes.
const (
	// Stored: acknowledged, now or as a duplicate.
	Stored Outcome = iota + 1
	// Refused: certainly not stored; the same bytes may be tried again.
	Refused
	// Unknown: no answer; perhaps stored.
	Unknown
	// Gap: certainly not stored, since a sequence before it is missing.
	Gap
	// Forgotten: certainly not stored by this attempt; the broker does not know the producer any more.
	Forgotten
	// Failed: certainly not stored by this attempt, and no other will be.
	Failed
)

type state uint8

const (
	queued state = iota
	sent
	stored
	failed
	lost
)

// Flight is a batch on its way.
type Flight[T any] struct {
	Value    T
	Sequence uint64 // of the first record
	Count    uint32 // records
	// Attempts counts how often it was sent.
	Attempts int

	state   state
	perhaps bool // an attempt had no answer
	gaps    int
}

// Stored tells whether the batch left acknowledged.
func (f *Flight[T]) Stored() bool { return f.state == stored }

// Lost tells whether the batch left with its outcome unknown.
func (f *Flight[T]) Lost() bool { return f.state == lost }

// Perhaps tells whether an attempt had no answer, so that the batch may be stored.
func (f *Flight[T]) Perhaps() bool { return f.perhaps }

// Window has the batches of a session that have not left. The zero value is an open session.
type Window[T any] struct {
	flights []*Flight[T]
	next    uint64
	out     int  // in state sent
	retry   bool // something must be repeated: nothing new until out is 0
	broken  bool
}

// Len gives the number of batches that have not left.
func (w *Window[T]) Len() int { return len(w.flights) }

// Out gives the number of unanswered attempts.
func (w *Window[T]) Out() int { return w.out }

// Room tells whether Add may be called.
func (w *Window[T]) Room() bool { return !w.broken && len(w.flights) < Max }

// Broken tells whether the session has ended: call Restart when Out is 0.
func (w *Window[T]) Broken() bool { return w.broken }

// Add gives a batch its sequence and puts it behind the others.
func (w *Window[T]) Add(value T, count uint32) *Flight[T] {
	if !w.Room() {
		panic("session: no room")
	}
	f := &Flight[T]{Value: value, Sequence: w.next, Count: count}
	w.next += uint64(count)
	w.flights = append(w.flights, f)
	return f
}

// Next gives the batch to send now, nil if none may be.
func (w *Window[T]) Next() *Flight[T] {
	if w.broken || w.retry && w.out > 0 {
		return nil
	}
	w.retry = false
	for _, f := range w.flights {
		if f.state == queued {
			return f
		}
	}
	return nil
}

// Sent says that an attempt for what Next gave has begun.
func (w *Window[T]) Sent(f *Flight[T]) {
	f.state = sent
	f.Attempts++
	w.out++
}

// Settle says what became of an attempt.
func (w *Window[T]) Settle(f *Flight[T], outcome Outcome) {
	w.out--
	f.state = queued
	switch outcome {
	case Stored:
		f.state = stored
	case Refused:
		w.retry = true
	case Unknown:
		f.perhaps, w.retry = true, true
	case Gap:
		w.retry = true
		if w.predecessorsStored(f) {
			f.gaps++
			w.broken = w.broken || f.gaps >= gapsMax
		}
	case Forgotten:
		w.broken = true
	case Failed:
		w.Drop(f)
	}
}

// Drop takes a batch out that is not being sent: it failed for good or its time is over. The session is broken by that, since its sequence
// may be missing.
func (w *Window[T]) Drop(f *Flight[T]) {
	if f.state != queued {
		return
	}
	f.state = failed
	if f.perhaps {
		f.state = lost
	}
	w.broken = true
}

// Amend says that a batch which is not being sent and certainly not stored has become smaller. The session is broken by that: its sequences
// no longer fit.
func (w *Window[T]) Amend(f *Flight[T], count uint32) {
	if f.state != queued || f.perhaps {
		panic("session: amend a batch that may be stored")
	}
	f.Count = count
	w.broken = true
}

func (w *Window[T]) predecessorsStored(f *Flight[T]) bool {
	for _, before := range w.flights {
		if before == f {
			return true
		}
		if before.state != stored {
			return false
		}
	}
	return true
}

// Restart begins a new session after a broken one; Out must be 0. What may be stored is lost. The rest gets new sequences; renumbered is
// called for each, so that the caller changes its bytes.
func (w *Window[T]) Restart(renumbered func(f *Flight[T])) {
	if w.out > 0 {
		panic("session: restart with answers outstanding")
	}
	w.broken, w.retry, w.next = false, false, 0
	for _, f := range w.flights {
		if f.state != queued {
			continue
		}
		if f.perhaps {
			f.state = lost
			continue
		}
		f.Sequence, f.gaps = w.next, 0
		w.next += uint64(f.Count)
		renumbered(f)
	}
}

// Pop gives the first batch if it is at its end, and takes it out; else nil.
func (w *Window[T]) Pop() *Flight[T] {
	if len(w.flights) == 0 || w.flights[0].state <= sent {
		return nil
	}
	f := w.flights[0]
	copy(w.flights, w.flights[1:])
	w.flights[len(w.flights)-1] = nil
	w.flights = w.flights[:len(w.flights)-1]
	return f
}

// Waiting calls yield for each batch that is not being sent and not at its end, in order. yield may Drop it.
func (w *Window[T]) Waiting(yield func(f *Flight[T])) {
	for _, f := range w.flights {
		if f.state == queued {
			yield(f)
		}
	}
}
