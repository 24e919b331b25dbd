package upstream

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

// append puts ten records into partition 0, appended at 1 s to 10 s.
func (w *world) append(t testing.TB) {
	t.Helper()
	w.Append(t, 0, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
}

func counting(n *int, next standin.Hook) standin.Hook {
	return func(ctx context.Context, req *frame.Request) bool {
		*n++
		return next != nil && next(ctx, req)
	}
}

func failing(kind wirecapnp.ErrorKind) standin.Hook {
	return func(_ context.Context, req *frame.Request) bool {
		_ = req.Fail(frame.Errorf(kind, "failed by the test"))
		return true
	}
}

// Invariant 6: who serves a fetch, and what comes of it.
func TestFetchFindsWhoHasTheOffset(t *testing.T) {
	for name, c := range map[string]struct {
		offset  partition.Offset
		set     func(w *world, tierers []*standin.Node)
		want    fault.Kind // Internal: none
		cold    bool
		asked   [3]int // broker, first tierer, second tierer
		trimmed uint64
	}{
		"hot":                          {offset: 6, asked: [3]int{1, 0, 0}},
		"cold by redirect":             {offset: 2, cold: true, asked: [3]int{1, 1, 0}},
		"cold, known to be":            {offset: 2, set: func(w *world, _ []*standin.Node) { w.cluster.marks.set(w.ID(0), 5) }, cold: true, asked: [3]int{0, 1, 0}},
		"known to be cold, but is hot": {offset: 8, set: func(w *world, _ []*standin.Node) { w.cluster.marks.set(w.ID(0), 9) }, asked: [3]int{1, 1, 0}},
		"first tierer is gone":         {offset: 2, set: func(_ *world, t []*standin.Node) { t[0].Kill() }, cold: true, asked: [3]int{1, 0, 1}},
		"first tierer fails":           {offset: 2, set: func(_ *world, t []*standin.Node) { t[0].SetHook(failing(wirecapnp.ErrorKind_internal)) }, cold: true, asked: [3]int{1, 0, 1}},
		"first tierer does not know it": {
			offset: 2, set: func(_ *world, t []*standin.Node) { t[0].SetHook(failing(wirecapnp.ErrorKind_notFound)) }, cold: true, asked: [3]int{1, 0, 1},
		},
		"all tierers are gone": {
			offset: 2, set: func(_ *world, t []*standin.Node) { t[0].Kill(); t[1].Kill() }, want: fault.Unavailable, cold: true, asked: [3]int{1, 0, 0},
		},
		"remembered as cold, no tierer, but the broker has it": {
			offset: 6, set: func(w *world, t []*standin.Node) { w.cluster.marks.set(w.ID(0), 7); t[0].Kill(); t[1].Kill() }, asked: [3]int{1, 0, 0},
		},
		"trimmed":      {offset: 1, set: func(w *world, _ []*standin.Node) { w.Logs[0].Trim(2) }, want: fault.OffsetTrimmed, asked: [3]int{1, 0, 0}, trimmed: 2},
		"beyond":       {offset: 11, want: fault.OffsetOutOfRange, asked: [3]int{1, 0, 0}, trimmed: 10},
		"tier is late": {offset: 4, set: func(w *world, _ []*standin.Node) { w.Logs[0].Tier(5, 3) }, want: fault.Unavailable, asked: [3]int{bounces + 1, bounces, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.append(t)
				w.Logs[0].Tier(5, 7)
				tierers := w.Tierers(t)
				var asked [3]int
				w.Brokers[1].SetHook(counting(&asked[0], nil))
				tierers[0].SetHook(counting(&asked[1], nil))
				tierers[1].SetHook(counting(&asked[2], nil))
				if c.set != nil {
					c.set(w, tierers)
				}
				reply, cold, err := w.caller.Fetch(t.Context(), Fetch{Partition: w.ID(0), Offset: c.offset, MaxBytes: 1})
				if c.want == fault.Internal {
					if err != nil {
						t.Fatal(err)
					}
					h, err := batch.ParseHeader(reply.Body)
					if err != nil || h.BaseOffset != uint64(c.offset) {
						t.Errorf("got offset %d, %v", h.BaseOffset, err)
					}
					reply.Release()
				} else if !fault.Is(err, c.want) {
					t.Errorf("err = %v, want %s", err, c.want)
				}
				if f, ok := asFault(err); ok && c.trimmed != 0 && f.Offset != c.trimmed {
					t.Errorf("offset in the error: %d, want %d", f.Offset, c.trimmed)
				}
				if c.want == fault.Internal && cold != c.cold {
					t.Errorf("cold = %v", cold)
				}
				if asked != c.asked {
					t.Errorf("broker and tierers were asked %v times, want %v", asked, c.asked)
				}
			})
		})
	}
}

// Invariant 4.
func TestReadsAreRepeatedUntilTheyHaveAnAnswer(t *testing.T) {
	for name, disturb := range map[string]func(w *world){
		"broker dies before": func(w *world) { w.Brokers[1].Kill(); w.background.Go(func() { takeOver(w, time.Second) }) },
		"broker dies with the read": func(w *world) {
			w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool { w.Brokers[1].Kill(); takeOver(w, 0); return true })
		},
		"broker is paused": func(w *world) {
			w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool {
				w.background.Go(func() { takeOver(w, time.Second) })
				return true
			})
		},
		"broker leads no more": func(w *world) {
			w.Brokers[1].SetHook(failing(wirecapnp.ErrorKind_notLeader))
			w.background.Go(func() { takeOver(w, time.Second) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.append(t)
				disturb(w)
				reply, _, err := w.caller.Fetch(t.Context(), Fetch{Partition: w.ID(0), Offset: 3, Wait: 20 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				reply.Release()
				w.background.Wait()
				w.Brokers[1].BreakConns()
			})
		})
	}
}

// While nobody leads, those who follow serve what they have; where they have no more, the leader is waited for.
func TestFollowersServeWhileNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.append(t)
		w.Brokers[2].Serve(w.ID(0), w.Logs[0])
		w.Views.Change(func(v *topology.View) {
			assigned := slices.Clone(v.Partitions[w.Topic.ID])
			assigned[0].Value.Members = []partition.Member{{Broker: 1}, {Broker: 2}}
			v.Partitions[w.Topic.ID] = assigned
		})
		w.Brokers[1].Kill()
		began := time.Now()
		reply, cold, err := w.caller.Fetch(t.Context(), Fetch{Partition: w.ID(0), Offset: 3})
		if err != nil || cold {
			t.Fatal(cold, err)
		}
		if got := standin.Values(t, reply.Body); len(got) != 7 || got[0] != "3" {
			t.Errorf("got %v", got)
		}
		reply.Release()
		w.Brokers[2].SetHook(failing(wirecapnp.ErrorKind_notLeader)) // it has no more
		w.background.Go(func() {
			time.Sleep(time.Second)
			w.Brokers[2].SetHook(nil)
			w.Lead(0, 2)
		})
		reply, _, err = w.caller.Fetch(t.Context(), Fetch{Partition: w.ID(0), Offset: 9})
		if err != nil || time.Since(began) < time.Second {
			t.Fatal(err, time.Since(began))
		}
		reply.Release()
		w.background.Wait()
	})
}

func TestReadWhoseDeadlineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool { return true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.caller.ListOffsets(ctx, w.ID(0), 0, At{Latest: true}); !fault.Is(err, fault.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		w.Brokers[1].BreakConns()
	})
}

// Offsets 0 to 9 were appended at 1 s to 10 s; the log starts at 1, the broker at 5, and the tier ends at 7.
func TestListOffsetsJoinsTierAndBroker(t *testing.T) {
	second := func(s int64) At { return At{Time: s * 1_000_000} }
	for name, c := range map[string]struct {
		at     At
		tier   [2]uint64
		want   partition.Offset
		failed fault.Kind
	}{
		"earliest":                          {at: At{Earliest: true}, want: 1},
		"latest":                            {at: At{Latest: true}, want: 10},
		"time in the local part":            {at: second(8), want: 7},
		"time at the local start":           {at: second(6), want: 5},
		"time in the tier":                  {at: second(4), want: 3},
		"time before the log start":         {at: second(1), want: 1},
		"time before everything":            {at: At{Time: -5}, want: 1},
		"time after everything":             {at: second(99), want: 10},
		"tier ends where the broker starts": {at: second(6), tier: [2]uint64{5, 5}, want: 5},
		"tier is behind, time is in it":     {at: second(3), tier: [2]uint64{5, 4}, want: 2},
		"tier is behind, time is not":       {at: second(5), tier: [2]uint64{5, 4}, failed: fault.Unavailable},
		"nothing is tiered":                 {at: second(4), tier: [2]uint64{1, 1}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.append(t)
				w.Logs[0].Trim(1)
				w.Logs[0].Tier(5, 7)
				if c.tier != [2]uint64{} {
					w.Logs[0].Tier(c.tier[0], c.tier[1])
				}
				w.Tierers(t)
				got, err := w.caller.ListOffsets(t.Context(), w.ID(0), 0, c.at)
				if c.failed != fault.Internal {
					if !fault.Is(err, c.failed) {
						t.Errorf("%+v, %v", got, err)
					}
					return
				}
				if err != nil || got.Offset != c.want || got.HighWatermark != 10 || got.LogStart != 1 {
					t.Errorf("%+v, %v, want %d", got, err, c.want)
				}
			})
		})
	}
}

func TestInitProducerAsksAnyBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Brokers[1].Kill()
		for range 5 {
			if id, err := w.caller.InitProducer(t.Context()); err != nil || id == 0 {
				t.Fatalf("id %d, %v", id, err)
			}
		}
		w.Brokers[2].Kill()
		if _, err := w.caller.InitProducer(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestSealTrimAndState(t *testing.T) {
	w := newWorld(t)
	w.append(t)
	if sealed, err := w.caller.Seal(t.Context(), w.ID(0)); err != nil || sealed != (Sealed{End: 10, Sealed: true}) {
		t.Errorf("seal: %+v, %v", sealed, err)
	}
	if trimmed, err := w.caller.Trim(t.Context(), w.ID(0), 4, false); err != nil || trimmed != (Trimmed{LogStart: 4, LocalStart: 4}) {
		t.Errorf("trim: %+v, %v", trimmed, err)
	}
	if state, err := w.caller.PartitionState(t.Context(), w.ID(0)); err != nil || state.HighWatermark != 10 || !state.Active {
		t.Errorf("state: %+v, %v", state, err)
	}
}
