package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func refuseAll(kind wirecapnp.ErrorKind) func(context.Context, *frame.Request) bool {
	return func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() != wirecapnp.Request_Which_publish {
			return false
		}
		_ = req.Fail(&frame.RemoteError{Kind: kind, Text: "refused by the test", RetryAfter: time.Second})
		return true
	}
}

// Invariants 2 and 5, as a table: what becomes of a publish, and what the logs hold then.
func TestPublishOutcomes(t *testing.T) {
	key := batch.DedupeKeyOf("once")
	for name, c := range map[string]struct {
		key      batch.Key128
		timeout  time.Duration
		before   func(w *world)
		received func(w *world, req *frame.Request) // called once, when broker 1 has received the publish, which it does not serve
		want     fault.Kind                         // ignored where stored
		stored   bool
		within   time.Duration
	}{
		"served":                          {stored: true},
		"broker dies before receiving":    {before: func(w *world) { w.Brokers[1].Kill() }, want: fault.Unavailable},
		"dies before, another takes over": {before: func(w *world) { w.Brokers[1].Kill(); w.background.Go(func() { takeOver(w, time.Second) }) }, stored: true},
		"broker dies after receiving": {
			received: func(w *world, _ *frame.Request) { w.Brokers[1].Kill(); takeOver(w, 0) }, want: fault.OutcomeUnknown, within: time.Second,
		},
		"dies after receiving, with a key": {
			key: key, received: func(w *world, _ *frame.Request) { w.Brokers[1].Kill(); takeOver(w, 0) }, stored: true,
		},
		"paused, another takes over": {
			received: func(w *world, _ *frame.Request) { takeOver(w, 0) }, want: fault.OutcomeUnknown, within: 2 * time.Second,
		},
		"paused, another takes over, with a key": {
			key: key, received: func(w *world, _ *frame.Request) { takeOver(w, 0) }, stored: true, within: 2 * time.Second,
		},
		"dies after receiving, with a key, and nobody takes over": {
			key: key, received: func(w *world, _ *frame.Request) { w.Brokers[1].Kill() }, want: fault.OutcomeUnknown,
		},
		"no answer, then refused for good, with a key": {
			key: key, received: func(w *world, _ *frame.Request) {
				w.Brokers[2].SetHook(refuseAll(wirecapnp.ErrorKind_unknownProducer))
				w.Brokers[1].Kill()
				takeOver(w, 0)
			}, want: fault.OutcomeUnknown, within: time.Second,
		},
		"unreachable, another takes over": {
			before: func(w *world) {
				w.Net.Cut("gateway", "b1")
				w.background.Go(func() { takeOver(w, 100*time.Millisecond) })
			}, stored: true, within: 200 * time.Millisecond,
		},
		"paused until the deadline": {received: func(*world, *frame.Request) {}, timeout: 3 * time.Second, want: fault.OutcomeUnknown},
		"not the leader any more": {
			before: func(w *world) {
				w.Brokers[1].SetHook(refuseAll(wirecapnp.ErrorKind_notLeader))
				w.background.Go(func() { takeOver(w, time.Second) })
			}, stored: true,
		},
		"not the leader yet":        {received: func(_ *world, req *frame.Request) { _ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_notLeader, "x")) }, stored: true},
		"never the leader":          {before: func(w *world) { w.Brokers[1].SetHook(refuseAll(wirecapnp.ErrorKind_notLeader)) }, want: fault.NotLeader},
		"overloaded":                {before: func(w *world) { w.Brokers[1].SetHook(refuseAll(wirecapnp.ErrorKind_overloaded)) }, want: fault.Overloaded, within: time.Second},
		"stale map":                 {before: func(w *world) { w.Brokers[1].SetHook(refuseAll(wirecapnp.ErrorKind_staleRouting)) }, want: fault.StaleRouting, within: time.Second},
		"a kind from later":         {before: func(w *world) { w.Brokers[1].SetHook(refuseAll(999)) }, want: fault.Internal, within: time.Second},
		"nobody until the deadline": {before: func(w *world) { w.Views.Lead(w.ID(0), 9) }, timeout: 2 * time.Second, want: fault.DeadlineExceeded},
		"topic is unknown":          {before: func(w *world) { forget(w) }, want: fault.NotFound, within: time.Second},
		"topic appears": {before: func(w *world) {
			view := forget(w)
			w.background.Go(func() {
				time.Sleep(100 * time.Millisecond)
				w.Views.Change(func(v *topology.View) { v.Topics = view.Topics })
			})
		}, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if c.received != nil {
					var once atomic.Bool
					w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
						if req.Message.Which() != wirecapnp.Request_Which_publish || once.Swap(true) {
							return false
						}
						w.background.Go(func() { c.received(w, req) })
						return true
					})
				}
				if c.before != nil {
					c.before(w)
				}
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				started := time.Now()
				got := <-w.publish(ctx, t, 0, "v", c.key)
				if c.within > 0 && time.Since(started) > c.within {
					t.Errorf("it took %s", time.Since(started))
				}
				if c.stored != (got.err == nil) || !c.stored && fault.KindOf(got.err) != c.want {
					t.Errorf("outcome: %v (%s), want stored=%v or %s", got.err, fault.KindOf(got.err), c.stored, c.want)
				}
				if overloaded, ok := errors.AsType[*fault.Error](got.err); ok && c.want == fault.Overloaded && overloaded.RetryAfter != time.Second {
					t.Errorf("the hint is lost: %s", overloaded.RetryAfter)
				}
				stored := w.Logs[0].End()
				if c.stored && stored != 1 || !c.stored && stored != 0 {
					t.Errorf("the log holds %d records", stored)
				}
				w.background.Wait()
				w.Brokers[1].BreakConns() // what it keeps ends
			})
		})
	}
}

// takeOver makes broker 2 the leader of partition 0.
func takeOver(w *world, after time.Duration) {
	time.Sleep(after)
	w.Lead(0, 2)
}

// forget hides the topic and gives the view before.
func forget(w *world) *topology.View {
	before := w.Views.View()
	w.Views.Change(func(v *topology.View) { delete(v.Topics, w.Topic.ID) })
	return before
}

// Invariant 3: without waiting for answers, and in order also where the first ones are refused and the leader changes under way.
func TestPublishesOfAPartitionKeepTheirOrder(t *testing.T) {
	const each = 300
	for name, refuse := range map[string]int64{"undisturbed": 0, "first ones refused": 40, "all refused": 4 * each} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var seen atomic.Int64
				w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
					if req.Message.Which() != wirecapnp.Request_Which_publish {
						return false
					}
					if seen.Add(1) > refuse && refuse < 4*each {
						return false
					}
					_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_notLeader, "not yet"))
					return true
				})
				if refuse > 0 {
					w.background.Go(func() {
						time.Sleep(300 * time.Millisecond)
						for i := range w.Logs {
							w.Lead(i, 2)
						}
					})
				}
				var results []<-chan result
				for i := range each {
					for p := range w.Logs {
						results = append(results, w.publish(t.Context(), t, p, fmt.Sprint(i), batch.Key128{}))
					}
				}
				for i, r := range results {
					if got := <-r; got.err != nil {
						t.Fatalf("publish %d: %v", i, got.err)
					}
				}
				want := []string{}
				for i := range each {
					want = append(want, fmt.Sprint(i))
				}
				for p := range w.Logs {
					if refuse == 40 { // a broker that refuses some and takes others of those in flight mixes them: nothing is lost or doubled
						got := w.values(t, p)
						slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
						if len(got) != each {
							t.Errorf("partition %d has %d records", p, len(got))
						}
						continue
					}
					if got := w.values(t, p); !slices.Equal(got, want) {
						t.Errorf("partition %d holds %v", p, got)
					}
				}
				w.background.Wait()
			})
		})
	}
}

// A later publish does not overtake an earlier one by way of a new leader: it waits until the old one's answer has come or is given up.
func TestNewLeaderWaitsForTheOldOnesAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var answered atomic.Bool
		w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool { return true })
		w.Brokers[2].SetHook(func(context.Context, *frame.Request) bool {
			if !answered.Load() {
				t.Error("the second publish has overtaken the first")
			}
			return false
		})
		first := w.publish(t.Context(), t, 0, "first", batch.Key128{})
		synctest.Wait()
		w.Lead(0, 2)
		second := w.publish(t.Context(), t, 0, "second", batch.Key128{})
		w.background.Go(func() {
			if got := <-first; !fault.Is(got.err, fault.OutcomeUnknown) {
				t.Errorf("first: %v", got.err)
			}
		})
		synctest.Wait()
		time.Sleep(w.cluster.limits.SuspectAfter + w.cluster.limits.MovedGrace - time.Millisecond)
		answered.Store(true)
		if got := <-second; got.err != nil {
			t.Errorf("second: %v", got.err)
		}
		w.background.Wait()
		w.Brokers[1].BreakConns()
	})
}

// All publishes are on the wire before the first answer.
func TestPublishesArePipelined(t *testing.T) {
	const count = 50
	w := newWorld(t)
	var kept []*frame.Request
	all := make(chan []*frame.Request, 1)
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if kept = append(kept, req); len(kept) == count {
			all <- kept
		}
		return true
	})
	var results []<-chan result
	for i := range count {
		results = append(results, w.publish(t.Context(), t, 0, fmt.Sprint(i), batch.Key128{}))
	}
	for i, req := range slices.Backward(<-all) { // answered from the last to the first
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewPublish()
			out.SetBaseOffset(uint64(i))
			return err
		}, nil)
	}
	for i, r := range results {
		if got := <-r; got.err != nil || got.offset != uint64(i) {
			t.Fatalf("publish %d: %+v", i, got)
		}
	}
}

// A partition whose leader takes nothing does not hold up the others.
func TestOneStuckBrokerHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.Lead(1, 2)
	w.Net.Cut("gateway", "b1")
	ctx, cancel := context.WithCancel(t.Context())
	stuck := w.publish(ctx, t, 0, "stuck", batch.Key128{})
	for i := range 20 {
		if got := <-w.publish(t.Context(), t, 1, fmt.Sprint(i), batch.Key128{}); got.err != nil {
			t.Fatal(got.err)
		}
	}
	cancel()
	if got := <-stuck; !fault.Is(got.err, fault.Canceled) {
		t.Errorf("the stuck one: %v", got.err)
	}
	w.Net.Heal("gateway", "b1")
}

// Invariant 1, and what a broker is told about a client.
func TestEachCallerHasItsOwnConnections(t *testing.T) {
	w := newWorld(t)
	other := w.cluster.Caller(Client{ID: "other", Principal: "somebody else"})
	defer other.Close()
	for _, caller := range []*Caller{w.caller, other, w.caller, other} {
		if _, err := caller.PartitionState(t.Context(), w.ID(0)); err != nil {
			t.Fatal(err)
		}
	}
	hellos := w.Brokers[1].Hellos()
	if len(hellos) != 2 || len(w.Brokers[2].Hellos()) != 0 {
		t.Fatalf("%d and %d connections", len(hellos), len(w.Brokers[2].Hellos()))
	}
	for i, want := range [][2]string{{"test", "somebody"}, {"other", "somebody else"}} {
		h := hellos[i]
		if h.Role != wirecapnp.Role_gateway || h.ClientID != want[0] || h.OnBehalfOf != want[1] || h.ClusterID != w.cluster.clusterID() {
			t.Errorf("hello %d: %+v", i, h)
		}
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t)
	received := make(chan struct{})
	w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool {
		close(received)
		return true
	})
	flying := w.publish(t.Context(), t, 0, "in flight", batch.Key128{})
	w.Views.Lead(w.ID(1), 9)
	waiting := w.publish(t.Context(), t, 1, "nobody there", batch.Key128{})
	<-received
	w.caller.Close()
	if got := <-flying; !fault.Is(got.err, fault.OutcomeUnknown) {
		t.Errorf("in flight: %v", got.err)
	}
	if got := <-waiting; !fault.Is(got.err, fault.Unavailable) {
		t.Errorf("waiting: %v", got.err)
	}
	if got := <-w.publish(t.Context(), t, 0, "late", batch.Key128{}); !fault.Is(got.err, fault.Unavailable) {
		t.Errorf("late: %v", got.err)
	}
	w.Brokers[1].BreakConns()
}
