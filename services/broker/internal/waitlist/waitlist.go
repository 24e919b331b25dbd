package waitlist

import "github.com/seedqueue/sq/libs/partition"

// Waiter is a publish that waits.
type Waiter[D any] struct {
	Base, Last partition.Offset
	Size       int
	AppendTime int64
	Duplicate  bool
	Done       D               // the Host's
	Canceled   <-chan struct{} // closed when nobody waits any more; nil = never
}

// End is committed when the high watermark reaches it.
func (w *Waiter[D]) End() partition.Offset { return w.Last + 1 }

// Host tells those who wait.
type Host[D any] interface {
	Succeed(w *Waiter[D])
	Fail(w *Waiter[D], err error)
	// Answered gives back the room of so many publishes.
	Answered(batches, bytes int)
}

// List holds the waiters by end; duplicates, which wait for somebody else's end, apart. New makes one.
type List[D any] struct {
	host       Host[D]
	list       []Waiter[D]
	head       int
	duplicates []Waiter[D]
}

// New makes an empty List.
func New[D any](h Host[D]) *List[D] { return &List[D]{host: h} }

// Len is how many wait.
func (l *List[D]) Len() int { return len(l.list) - l.head + len(l.duplicates) }

// Add makes a batch wait that is about to be appended behind all others.
func (l *List[D]) Add(w Waiter[D]) { l.list = append(l.list, w) }

// Duplicate makes one wait that is in the log already.
func (l *List[D]) Duplicate(w Waiter[D]) { l.duplicates = append(l.duplicates, w) }

// Stamped tells the newest n when their batches were appended.
func (l *List[D]) Stamped(n int, appendTime func(i int) int64) {
	newest := l.list[max(l.head, len(l.list)-n):]
	for i := range newest {
		newest[i].AppendTime = appendTime(i)
	}
}

// Commit answers everything that ends at or below hw.
func (l *List[D]) Commit(hw partition.Offset) {
	batches, bytes := 0, 0
	for l.head < len(l.list) && l.list[l.head].End() <= hw {
		w := &l.list[l.head]
		batches, bytes = batches+1, bytes+w.Size
		l.host.Succeed(w)
		*w = Waiter[D]{}
		l.head++
	}
	if l.head == len(l.list) {
		l.list, l.head = l.list[:0], 0
	}
	kept := l.duplicates[:0]
	for i := range l.duplicates {
		w := l.duplicates[i]
		if w.End() > hw {
			kept = append(kept, w)
			continue
		}
		batches, bytes = batches+1, bytes+w.Size
		l.host.Succeed(&w)
	}
	clear(l.duplicates[len(kept):])
	l.duplicates = kept
	l.host.Answered(batches, bytes)
}

// Cut fails everything at or above to.
func (l *List[D]) Cut(to partition.Offset, err error) {
	l.drop(func(w *Waiter[D]) bool { return w.Base >= to }, err)
}

// All fails everything.
func (l *List[D]) All(err error) { l.drop(func(*Waiter[D]) bool { return true }, err) }

// Expire fails what nobody waits for any more. It may be committed all the same.
func (l *List[D]) Expire(err error) {
	l.drop(func(w *Waiter[D]) bool {
		select {
		case <-w.Canceled:
			return true
		default:
			return false
		}
	}, err)
}

func (l *List[D]) drop(gone func(*Waiter[D]) bool, err error) {
	batches, bytes := 0, 0
	filter := func(list []Waiter[D]) []Waiter[D] {
		kept := list[:0]
		for i := range list {
			w := list[i]
			if !gone(&w) {
				kept = append(kept, w)
				continue
			}
			batches, bytes = batches+1, bytes+w.Size
			l.host.Fail(&w, err)
		}
		clear(list[len(kept):])
		return kept
	}
	l.list = append(l.list[:0], filter(l.list[l.head:])...)
	l.head = 0
	l.duplicates = filter(l.duplicates)
	l.host.Answered(batches, bytes)
}
