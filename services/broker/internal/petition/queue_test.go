package petition_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/petition"
)

// One at a time, in order, each told once; what has nothing to say does not hold up the rest.
func TestQueue(t *testing.T) {
	var q petition.Queue
	var told []string
	end := partition.Offset(10)
	add := func(name string, says bool) {
		q.Add(petition.Petition{
			Decide: func() (func(batchcapnp.Control) error, error) {
				told = append(told, name+" decides")
				if !says {
					return nil, nil
				}
				return func(batchcapnp.Control) error { return nil }, nil
			},
			Done: func(err error) { told = append(told, fmt.Sprintf("%s: %v", name, err)) },
		})
	}
	next := func(may error) {
		q.Next(func() error { return may }, func(func(batchcapnp.Control) error) (partition.Offset, error) { end++; return end, nil })
	}
	add("a", true)
	add("b", false)
	add("c", true)
	add("d", true)
	next(nil)
	next(nil) // a is pending
	q.Committed(10)
	q.Committed(11)
	next(nil)
	q.Cut(12, errors.New("above")) // c ends there: it stays
	q.Cut(11, errors.New("cut"))
	next(errors.New("no leader"))
	add("e", true)
	next(nil)
	add("f", true)
	q.Stop(errors.New("stopped"))
	want := []string{
		"a decides", "a: <nil>", "b decides", "b: <nil>", "c decides", "c: cut", "d: no leader", "e decides", "e: stopped", "f: stopped",
	}
	if diff := cmp.Diff(want, told); diff != "" || !q.Idle() {
		t.Errorf("idle %v: %s", q.Idle(), diff)
	}
	for range petition.Max {
		add("x", true)
	}
	if q.Add(petition.Petition{}) {
		t.Error("there is no bound")
	}
}
