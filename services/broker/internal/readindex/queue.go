package readindex

import "github.com/seedqueue/sq/libs/partition"

// Answer gets the high watermark, or why there is none.
type Answer func(partition.Offset, error)

// Queue holds them. The zero value is empty.
type Queue struct{ now, next []Answer }

// Add makes somebody wait for the next round.
func (q *Queue) Add(a Answer) { q.next = append(q.next, a) }

// Begin tells whether a round is to begin: somebody waits and none is under way.
func (q *Queue) Begin() bool {
	if len(q.now) > 0 || len(q.next) == 0 {
		return false
	}
	q.now, q.next = q.next, nil
	return true
}

// Done ends the round.
func (q *Queue) Done(hw partition.Offset) {
	now := q.now
	q.now = nil
	for _, answer := range now {
		answer(hw, nil)
	}
}

// Fail tells all that no answer comes.
func (q *Queue) Fail(err error) {
	all := append(q.now, q.next...)
	q.now, q.next = nil, nil
	for _, answer := range all {
		answer(0, err)
	}
}
