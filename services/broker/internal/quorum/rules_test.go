package quorum

import (
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
)

// led gives a world of n members in which 1 leads epoch 1 and has had the labels committed everywhere.
func led(n int, labels ...string) *world {
	w := newWorld(n, nil)
	var set []partition.Member
	for id := 1; id <= n; id++ {
		set = append(set, member(id))
	}
	w.nominate(1, set)
	w.learn(w.nodes[1], false)
	w.run()
	w.propose(w.nodes[1], labels)
	w.run()
	// The last Append told the followers the high watermark.
	w.out.Reset()
	return w
}

// stamped makes a batch as a leader of epoch would append it behind chain.
func stamped(label string, base partition.Offset, epoch partition.Epoch, chain uint64) Entry {
	e := dataEntry(label)
	batch.Stamp(e.Msg, batch.Stamps{BaseOffset: uint64(base), Epoch: uint64(epoch), AppendTime: 1_000_000, Chain: chain, PartitionTag: 7})
	h, err := batch.ParseHeader(e.Msg)
	if err != nil {
		panic(err)
	}
	return Entry{Header: h, Msg: e.Msg}
}

func quarantined(effects []Effect) string {
	for _, e := range effects {
		if q, ok := e.(Quarantine); ok {
			return q.Reason
		}
	}
	return ""
}

// A follower that is told to cut what is committed takes no further part (doc.go 5).
func TestNothingBelowTheHighWatermarkIsCut(t *testing.T) {
	w := led(3, "a", "b")
	s := w.nodes[2].state
	if s.HighWatermark() != 3 {
		t.Fatalf("high watermark is %d, want 3", s.HighWatermark())
	}
	a := w.nodes[2].log[1]
	forged := stamped("z", 2, 2, batch.NextChain(a.Msg))
	s.Step(Received{From: member(3), Message: Prepare{Epoch: 2}})
	got := s.Step(Received{From: member(3), Message: Append{
		Epoch: 2, Prev: 2, PrevEpoch: 1, PrevChain: forged.Chain, Until: 3, Entries: []Entry{forged},
	}})
	// Whatever lies below the high watermark is not even compared: it is committed.
	if q := quarantined(got); q != "" || s.End() != 3 {
		t.Fatalf("a batch below the high watermark: quarantined %q, end %d", q, s.End())
	}
	// A candidate whose donor parts from it below its high watermark stops.
	c := led(3, "a", "b")
	n := c.nodes[2]
	c.nominate(2, members(1, 2, 3))
	c.learn(n, false)
	c.disk(n, true)
	got = n.state.Step(Received{From: member(3), Message: PrepareOK{
		Epoch: 2, LastEpoch: 5, End: 9, Epochs: []EpochStart{{1, 0}, {5, 1}},
	}})
	if q := quarantined(got); !strings.Contains(q, "below the high watermark 3") {
		t.Fatalf("quarantined %q", q)
	}
	if got := n.state.Step(Promised{Epoch: 9}); got != nil {
		t.Fatalf("a quarantined replica does %v", got)
	}
}

// The same place and epoch with other content is damage, never a conflict to be overwritten (§1.8).
func TestTwoBatchesAtOnePlaceAreDamage(t *testing.T) {
	w := led(3, "a")
	leader, s := w.nodes[1], w.nodes[2].state
	w.propose(leader, []string{"b"})
	w.deliver(1, 2, false, false)
	b := leader.log[2]
	other := stamped("B", 2, 1, b.Chain)
	got := s.Step(Received{From: member(1), Message: Append{
		Epoch: 1, Prev: 2, PrevEpoch: 1, PrevChain: b.Chain, Until: 3, HighWatermark: 2, Entries: []Entry{other},
	}})
	if q := quarantined(got); !strings.Contains(q, "two different batches at 2") {
		t.Fatalf("quarantined %q, effects %v", q, got)
	}
	// A chain that does not fit at the end of an agreed prefix is too.
	w = led(3, "a")
	s = w.nodes[2].state
	got = s.Step(Received{From: member(1), Message: Append{
		Epoch: 1, Prev: 2, PrevEpoch: 1, PrevChain: 99, Until: 3, HighWatermark: 2, Entries: []Entry{stamped("x", 2, 1, 99)},
	}})
	if q := quarantined(got); !strings.Contains(q, "another batch before 2") {
		t.Fatalf("quarantined %q, effects %v", q, got)
	}
}

// match is the end of what one request verified, not the end of the log (mutant match-whole-log).
func TestMatchIsWhatWasVerified(t *testing.T) {
	w := led(3, "a")
	w.propose(w.nodes[1], []string{"b", "c"})
	w.deliver(1, 2, false, false)
	for w.disk(w.nodes[2], false) {
	}
	// 3 leads epoch 2 and appends nothing but what 2 has up to 2: 2's own tail of epoch 1 is not confirmed by that.
	s := w.nodes[2].state
	s.Step(Received{From: member(3), Message: Prepare{Epoch: 2}})
	s.Step(Promised{Epoch: 2})
	got := s.Step(Received{From: member(3), Message: Append{Epoch: 2, Prev: 2, PrevEpoch: 1, PrevChain: w.nodes[2].log[2].Chain, Until: 2, HighWatermark: 2}})
	var ok *AppendOK
	for _, e := range got {
		if send, is := e.(Send); is {
			if m, is := send.Message.(AppendOK); is {
				ok = &m
			}
		}
	}
	if ok == nil || ok.Match != 2 || s.End() != 4 {
		t.Fatalf("AppendOK %+v with a log of %d, want match 2 with 4", ok, s.End())
	}
}

// A high watermark above the recovered log is lowered and makes the replica suspect (R15).
func TestHighWatermarkAboveTheLog(t *testing.T) {
	s := New(Config{Self: member(1), Incarnation: 1}, Recovered{HighWatermark: 10, Promised: 3})
	s.Opened()
	if s.HighWatermark() != 0 || !s.suspect {
		t.Fatalf("high watermark %d, suspect %t", s.HighWatermark(), s.suspect)
	}
}

// A view that is older than what is known changes nothing (R7's other half: views are hints).
func TestOldViewsAreIgnored(t *testing.T) {
	w := led(1, "a")
	n := w.nodes[1]
	old := w.register
	old.Epoch, old.Leader.Broker = 7, 9
	if got := n.state.Step(Assigned{Assignment: old, Revision: 0}); len(got) != 0 {
		t.Fatalf("an older revision had effects %v", got)
	}
	if got := n.state.Step(Assigned{Assignment: topology.Assignment{Epoch: 0}, Revision: w.revision + 1}); len(got) != 0 {
		t.Fatalf("a lower epoch had effects %v", got)
	}
	if !n.state.Leads() {
		t.Fatal("the leader has stepped down")
	}
	if got := n.state.Step(Assigned{Assignment: old, Revision: w.revision + 2}); len(got) == 0 {
		t.Fatal("a later epoch had no effect")
	}
}

// common finds where two logs part, by their epochs alone.
func TestCommon(t *testing.T) {
	e := func(pairs ...uint64) (out []EpochStart) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, EpochStart{partition.Epoch(pairs[i]), partition.Offset(pairs[i+1])})
		}
		return out
	}
	for _, c := range []struct {
		name   string
		a      []EpochStart
		aEnd   partition.Offset
		b      []EpochStart
		bEnd   partition.Offset
		common partition.Offset
	}{
		{"both empty", nil, 0, nil, 0, 0},
		{"one empty", e(1, 0), 5, nil, 0, 0},
		{"same", e(1, 0, 2, 5), 9, e(1, 0, 2, 5), 9, 9},
		{"one longer in the same epoch", e(1, 0, 2, 5), 9, e(1, 0, 2, 5), 7, 7},
		{"part after epoch 1", e(1, 0, 2, 5), 9, e(1, 0, 3, 4), 8, 4},
		{"an epoch that the other lacks", e(1, 0, 2, 5, 4, 9), 12, e(1, 0, 3, 5), 20, 5},
		{"no epoch in common", e(2, 0), 3, e(1, 0), 3, 0},
	} {
		if got := common(c.a, c.aEnd, c.b, c.bEnd); got != c.common {
			t.Errorf("%s: %d, want %d", c.name, got, c.common)
		}
		if got := common(c.b, c.bEnd, c.a, c.aEnd); got != c.common {
			t.Errorf("%s, other way round: %d, want %d", c.name, got, c.common)
		}
	}
}
