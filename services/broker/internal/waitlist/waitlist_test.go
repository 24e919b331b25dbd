package waitlist_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/waitlist"
)

// book notes what the waiters are told.
type book struct {
	told           []string
	batches, bytes int
}

func (b *book) Succeed(w *waitlist.Waiter[string]) { b.told = append(b.told, w.Done+" ok") }
func (b *book) Fail(w *waitlist.Waiter[string], err error) {
	b.told = append(b.told, fmt.Sprintf("%s %v", w.Done, err))
}

func (b *book) Answered(batches, bytes int) { b.batches, b.bytes = b.batches+batches, b.bytes+bytes }

// Everybody is told once, in order, and all room is given back.
func TestList(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	b := &book{}
	l := waitlist.New[string](b)
	wait := func(name string, base, last partition.Offset) waitlist.Waiter[string] {
		return waitlist.Waiter[string]{Done: name, Size: 10, Base: base, Last: last}
	}
	l.Add(wait("a", 1, 2))
	l.Add(wait("b", 3, 3))
	c := wait("c", 4, 6)
	c.Canceled = gone
	l.Add(c)
	l.Add(wait("d", 7, 7))
	l.Duplicate(wait("b again", 3, 3))
	l.Duplicate(wait("d again", 7, 7))
	l.Stamped(1, func(int) int64 { return 42 })
	l.Commit(3)
	l.Commit(4)
	l.Expire(errors.New("expired"))
	l.Cut(7, errors.New("cut"))
	if l.Len() != 0 {
		t.Errorf("%d wait", l.Len())
	}
	l.Add(wait("e", 7, 7))
	l.All(errors.New("stopped"))
	want := []string{"a ok", "b ok", "b again ok", "c expired", "d cut", "d again cut", "e stopped"}
	if diff := cmp.Diff(want, b.told); diff != "" {
		t.Error(diff)
	}
	if b.batches != 7 || b.bytes != 70 {
		t.Errorf("%d batches, %d bytes given back", b.batches, b.bytes)
	}
}
