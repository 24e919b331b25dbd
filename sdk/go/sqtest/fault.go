package sqtest

import (
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// Call is a kind of request.
type Call uint8

// The calls that faults can meet.
const (
	Publish Call = iota
	Fetch
	Metadata
	ListOffsets
	InitProducer
)

// Fault is what goes wrong with a call.
type Fault struct {
	drop, after bool
	hang        bool
	answer      *frame.RemoteError
}

// DropBefore breaks the connection before the call is carried out.
func DropBefore() Fault { return Fault{drop: true} }

// DropAfter carries the call out and breaks the connection before the answer: the client cannot know.
func DropAfter() Fault { return Fault{drop: true, after: true} }

// Hang never answers; the call is not carried out.
func Hang() Fault { return Fault{hang: true} }

// Refuse answers with an error; the call is not carried out.
func Refuse(kind sq.Kind, retryAfter time.Duration) Fault {
	return Fault{answer: &frame.RemoteError{Kind: wirecapnp.ErrorKind(kind), Text: "injected: " + kind.String(), RetryAfter: retryAfter}}
}

// RefuseAfter carries the call out and answers with an error all the same, as a gateway does that lost its broker.
func RefuseAfter(kind sq.Kind) Fault {
	f := Refuse(kind, 0)
	f.after = true
	return f
}

type fault struct {
	Fault

	skip, left int
}

// Inject makes the next calls of a kind go wrong, so many times. Faults of a kind that are injected one after the other follow each other.
func (s *Server) Inject(call Call, f Fault, times int) { s.InjectAfter(call, 0, f, times) }

// InjectAfter lets some calls of the kind pass before.
func (s *Server) InjectAfter(call Call, pass int, f Fault, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults[call] = append(s.mu.faults[call], &fault{Fault: f, skip: pass, left: times})
}

// Calls counts the requests of a kind that arrived.
func (s *Server) Calls(call Call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.calls[call]
}

// meet gives the fault that a call meets, if any.
func (s *Server) meet(call Call) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calls[call]++
	queue := s.mu.faults[call]
	for len(queue) > 0 && queue[0].left == 0 {
		queue = queue[1:]
	}
	s.mu.faults[call] = queue
	if len(queue) == 0 {
		return Fault{}, false
	}
	if queue[0].skip > 0 {
		queue[0].skip--
		return Fault{}, false
	}
	queue[0].left--
	return queue[0].Fault, true
}
