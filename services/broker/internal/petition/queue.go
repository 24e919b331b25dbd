package petition

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// Max bounds the petitions that wait.
const Max = 256

// Petition wants a control batch in the log.
type Petition struct {
	// Decide gives what to append, or nil if there is nothing to do.
	Decide func() (func(batchcapnp.Control) error, error)
	Done   func(error)
}

// Queue takes petitions. The zero value is empty.
type Queue struct {
	waiting []Petition
	pending *Petition
	end     partition.Offset // of the pending one's batch
}

// Add puts one at the end; false if there is no room.
func (q *Queue) Add(p Petition) bool {
	if len(q.waiting) >= Max {
		return false
	}
	q.waiting = append(q.waiting, p)
	return true
}

// Idle tells whether none is pending or waits.
func (q *Queue) Idle() bool { return q.pending == nil && len(q.waiting) == 0 }

// Next decides those that wait until one has a batch for the log, which append puts there and tells its end.
func (q *Queue) Next(mayAppend func() error, appendBatch func(func(batchcapnp.Control) error) (partition.Offset, error)) {
	for q.pending == nil && len(q.waiting) > 0 {
		p := q.waiting[0]
		q.waiting = q.waiting[1:]
		err := mayAppend()
		var fill func(batchcapnp.Control) error
		if err == nil {
			fill, err = p.Decide()
		}
		var end partition.Offset
		if err == nil && fill != nil {
			end, err = appendBatch(fill)
		}
		if err != nil || fill == nil {
			p.Done(err)
			continue
		}
		q.pending, q.end = &p, end
	}
}

// Committed ends the pending one if its batch is.
func (q *Queue) Committed(hw partition.Offset) {
	if q.pending != nil && q.end <= hw {
		q.settle(nil)
	}
}

// Cut fails the pending one if its batch is gone.
func (q *Queue) Cut(to partition.Offset, err error) {
	if q.pending != nil && q.end > to {
		q.settle(err)
	}
}

func (q *Queue) settle(err error) {
	done := q.pending.Done
	q.pending = nil
	done(err)
}

// Stop fails all.
func (q *Queue) Stop(err error) {
	if q.pending != nil {
		q.settle(err)
	}
	for _, p := range q.waiting {
		p.Done(err)
	}
	q.waiting = nil
}
