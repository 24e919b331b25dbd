package readindex_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/readindex"
)

// Who comes while a round is under way waits for the next.
func TestQueue(t *testing.T) {
	var q readindex.Queue
	var told []string
	add := func(name string) {
		q.Add(func(hw partition.Offset, err error) { told = append(told, fmt.Sprintf("%s %d %v", name, hw, err)) })
	}
	if q.Begin() {
		t.Error("a round for nobody")
	}
	add("a")
	if !q.Begin() {
		t.Error("no round")
	}
	add("b")
	if q.Begin() {
		t.Error("two rounds at once")
	}
	q.Done(5)
	if !q.Begin() {
		t.Error("no second round")
	}
	add("c")
	q.Fail(errors.New("gone"))
	if diff := cmp.Diff([]string{"a 5 <nil>", "b 0 gone", "c 0 gone"}, told); diff != "" {
		t.Error(diff)
	}
}
