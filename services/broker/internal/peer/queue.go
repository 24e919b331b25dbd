package peer

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

// queue is what waits for a connection, by partition, and what is unanswered on it. It belongs to its pair's mutex. What it gives up lies in
// trash until the mutex is free: closing bodies may take a while.
type queue struct {
	lanes map[partition.ID]*lane
	ring  []*lane // those with something queued, in turn; some may have been emptied meanwhile
	trash []dropped

	queued, lazy int       // messages
	lazySince    time.Time // of the first of them
	active       int       // lanes with bodies queued or unanswered
	waiting      int       // bytes of bodies that are queued
	unanswered   int       // bytes of bodies
	frames       int       // unanswered
}

// lane is one partition's part.
type lane struct {
	id     partition.ID
	items  []Message
	listed bool // in the ring
	sent   int  // unanswered messages
	queued int  // bytes of bodies
	under  int  // bytes of bodies, unanswered
}

// dropped is a message that was given up.
type dropped struct {
	message Message
	why     reason
}

// outgoing is a frame to be sent. origin says whose each message is.
type outgoing struct {
	messages []Message
	origin   []origin
	bytes    int // of bodies
}

type origin struct {
	lane  *lane
	bytes int
}

func newQueue() *queue { return &queue{lanes: map[partition.ID]*lane{}} }

func bodyLen(m *Message) int {
	if m.Body == nil {
		return 0
	}
	return m.Body.Len()
}

// busy tells whether something of the partition is queued or unanswered.
func (q *queue) busy(id partition.ID) bool { return q.lanes[id] != nil }

func (q *queue) drop(m Message, why reason) { q.trash = append(q.trash, dropped{m, why}) }

// account moves the sums of a lane's bodies.
func (q *queue) account(l *lane, queued, under int) {
	before := l.queued+l.under > 0
	l.queued += queued
	l.under += under
	q.waiting += queued
	q.unanswered += under
	switch after := l.queued+l.under > 0; {
	case after && !before:
		q.active++
	case before && !after:
		q.active--
	}
}

// push appends a message, or lets the last one of its partition say what it says. The oldest go where there are too many.
func (q *queue) push(m Message, now time.Time) {
	l := q.lanes[m.Partition]
	if l == nil {
		l = &lane{id: m.Partition}
		q.lanes[m.Partition] = l
	}
	if n := len(l.items); n > 0 && merge(&l.items[n-1], &m) {
		if l.items[n-1].Lazy && !m.Lazy {
			l.items[n-1].Lazy = false
			q.lazy--
		}
		q.drop(m, merged)
		return
	}
	size := bodyLen(&m)
	for len(l.items) > 0 && (len(l.items) >= laneMessagesMax || l.queued+size > laneBytesMax || q.queued >= queueMessagesMax) {
		q.drop(q.pop(l), full)
	}
	if q.queued >= queueMessagesMax {
		q.drop(m, full)
		q.tidy(l)
		return
	}
	if !l.listed {
		l.listed = true
		q.ring = append(q.ring, l)
	}
	l.items = append(l.items, m)
	q.account(l, size, 0)
	q.queued++
	if m.Lazy {
		if q.lazy++; q.lazy == 1 {
			q.lazySince = now
		}
	}
}

// pop takes the lane's oldest message out.
func (q *queue) pop(l *lane) Message {
	m := l.items[0]
	l.items[0] = Message{}
	l.items = l.items[1:]
	q.account(l, -bodyLen(&m), 0)
	q.queued--
	if m.Lazy {
		q.lazy--
	}
	return m
}

// tidy forgets a lane of which there is nothing.
func (q *queue) tidy(l *lane) {
	if len(l.items) == 0 && l.sent == 0 && !l.listed {
		delete(q.lanes, l.id)
	}
}

// ready tells whether a frame may go out now; if not, when what is lazy will have waited long enough (zero = nothing waits for time).
func (q *queue) ready(now time.Time) (bool, time.Time) {
	switch {
	case q.queued == 0 || q.frames >= framesMax:
		return false, time.Time{}
	case q.queued > q.lazy:
		return true, time.Time{}
	}
	due := q.lazySince.Add(lazyWait)
	return !due.After(now), due
}

// take makes the next frame: of each lane in turn one message, as long as they fit. nil if nothing may go out now.
func (q *queue) take(now time.Time) (*outgoing, time.Time) {
	if ok, due := q.ready(now); !ok {
		return nil, due
	}
	out := &outgoing{}
	for encoded := 0; len(q.ring) > 0 && len(out.messages) < frameMessagesMax; {
		l := q.ring[0]
		if len(l.items) > 0 {
			encoded += encodedBytes(&l.items[0])
			if !q.fits(out, bodyLen(&l.items[0]), encoded) {
				break // a smaller one of another lane must not take its turn: it would never come
			}
			m := q.pop(l)
			size := bodyLen(&m)
			out.messages = append(out.messages, m)
			out.origin = append(out.origin, origin{l, size})
			out.bytes += size
			l.sent++
			q.account(l, 0, size)
		}
		q.ring = q.ring[1:]
		if l.listed = len(l.items) > 0; l.listed {
			q.ring = append(q.ring, l)
		} else {
			q.tidy(l)
		}
	}
	if len(out.messages) == 0 {
		return nil, time.Time{}
	}
	q.frames++
	return out, time.Time{}
}

// fits tells whether a message with a body of so many bytes may go with the frame.
func (q *queue) fits(out *outgoing, size, encoded int) bool {
	if len(out.messages) > 0 && (encoded > frameMessageBytes || out.bytes+size > frameBodyBytes) {
		return false
	}
	return size == 0 || q.unanswered == 0 || q.unanswered+size <= creditBytes
}

// answered gives the credit of a frame back.
func (q *queue) answered(out *outgoing) {
	q.frames--
	for _, o := range out.origin {
		o.lane.sent--
		q.account(o.lane, 0, -o.bytes)
		q.tidy(o.lane)
	}
}

// clear drops all that is queued.
func (q *queue) clear(why reason) {
	for _, l := range q.ring {
		l.listed = false
		for len(l.items) > 0 {
			q.drop(q.pop(l), why)
		}
		q.tidy(l)
	}
	q.ring = nil
}

// room tells how many bytes of bodies a partition may queue now: an equal share of the credit, less what it has queued or unanswered.
func (q *queue) room(id partition.ID) int {
	sharing, own := q.active, 0
	if l := q.lanes[id]; l != nil {
		own = l.queued + l.under
	}
	if own == 0 {
		sharing++
	}
	return max(max(creditBytes/sharing, roomMin)-own, 0)
}

// roomOfAll tells how many bytes of bodies may be queued until all that is on its way is the credit.
func (q *queue) roomOfAll() int { return max(creditBytes-q.unanswered-q.waiting, 0) }
