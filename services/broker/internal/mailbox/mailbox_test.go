package mailbox_test

import (
	"slices"
	"testing"

	"github.com/seedqueue/sq/services/broker/internal/mailbox"
)

// The bound is in number and bytes until the answer, a single large one passes, and nothing gets lost at the end.
func TestMailbox(t *testing.T) {
	m := mailbox.New[string](2, 10)
	steps := []struct {
		what string
		size int
		want mailbox.Admission
	}{{"large", 50, mailbox.Admitted}, {"over the bytes", 1, mailbox.Overfull}}
	for _, s := range steps {
		if got := m.Admit(s.what, s.size); got != s.want {
			t.Errorf("admit %s: %v, want %v", s.what, got, s.want)
		}
	}
	<-m.Wake()
	calls, queue := m.Take(nil, nil)
	if len(calls) != 0 || !slices.Equal(queue, []string{"large"}) {
		t.Errorf("took %d calls and %v", len(calls), queue)
	}
	if got := m.Admit("taken is not answered", 1); got != mailbox.Overfull {
		t.Errorf("before the answer: %v", got)
	}
	m.Answered(1, 50)
	for _, p := range []string{"a", "b"} {
		if got := m.Admit(p, 1); got != mailbox.Admitted {
			t.Errorf("admit %s: %v", p, got)
		}
	}
	if got := m.Admit("third", 1); got != mailbox.Overfull {
		t.Errorf("over the number: %v", got)
	}
	called := 0
	if !m.Post(func() { called++ }) {
		t.Error("an open mailbox refuses a call")
	}
	calls, queue = m.Close()
	if len(calls) != 1 || !slices.Equal(queue, []string{"a", "b"}) {
		t.Errorf("%d calls and %v are left", len(calls), queue)
	}
	if m.Post(func() {}) || m.Admit("late", 1) != mailbox.Closed {
		t.Error("a closed mailbox takes something in")
	}
}
