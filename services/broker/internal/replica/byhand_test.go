package replica

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/errand"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// hand is an errand.Runner that keeps what it is given.
type hand struct{ calls []func(context.Context) }

var _ errand.Runner = (*hand)(nil)

func (h *hand) Go(call func(context.Context))    { h.calls = append(h.calls, call) }
func (h *hand) After(_ time.Duration, do func()) { h.Go(func(context.Context) { do() }) }
func (h *hand) Await(func() bool)                {}
func (h *hand) Stop()                            {}
func (h *hand) Wait()                            {}
func (h *hand) run() (ran bool) {
	calls := h.calls
	h.calls = nil
	for _, call := range calls {
		call(context.Background())
	}
	return len(calls) > 0
}

// By hand nothing happens by itself, and everything does when it is asked for: an election, a publish, its ack. TestMain sees that no
// goroutine was started.
func TestByHand(t *testing.T) {
	mem, c, register := memfs.New(), clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), &register{}
	j, _, err := journal.Open(journal.Config{FS: mem, Dir: "journal", Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Put(journal.Created(theReplica, partition.ID{Topic: theTopic}, journal.Origin{})); err != nil {
		t.Fatal(err)
	}
	pool, errands := workers.ByHand(), &hand{}
	committer, err := commit.ByHand(commit.Config{Journal: j, Workers: pool, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := j.Replica(theReplica)
	r, err := Open(context.Background(), Config{
		Partition: partition.ID{Topic: theTopic}, Self: self, Incarnation: 1, Dir: logDir,
		Topic: topology.Topic{ID: theTopic, Partitions: 1, Durability: topology.DurabilityQuorum},
	}, Deps{
		FS: mem, Journal: j, Workers: pool, Commit: committer, Activator: register, Clock: c, Errands: errands,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Refusal: func(bool) error { return nil }, NoRoom: func() {},
	}, kept)
	if err != nil {
		t.Fatal(err)
	}
	settle := func() {
		for more := true; more; {
			more = r.Due()
			r.Step()
			more = committer.Step() || errands.run() || more
			for pool.Waiting() > 0 {
				pool.Step(0)
				more = true
			}
		}
	}
	r.Assign(register.nominate(1))
	if r.Active() {
		t.Fatal("it leads although nobody has run it")
	}
	settle()
	if !r.Active() {
		t.Fatalf("after all its steps: %+v", r.State())
	}
	var got []Published
	r.Publish(Publish{Msg: message(batch.BuildOptions{}, "a"), Done: func(p Published, err error) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, p)
	}})
	if len(got) != 0 {
		t.Fatal("acknowledged although nobody has run it")
	}
	settle()
	if len(got) != 1 {
		t.Fatalf("%d answers", len(got))
	}
	if diff := cmp.Diff(partition.Offset(1), got[0].BaseOffset); diff != "" {
		t.Error(diff)
	}
}
