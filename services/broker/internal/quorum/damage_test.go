package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
)

// damaged gives the next life of a node whose batch at a place of its log cannot be read: all of it, or, with bodies, only its body.
func damaged(n *node, at int, bodies bool) *State {
	s := New(Config{Self: member(n.id), Incarnation: n.incarnation + 1, Tag: 7, SyncEveryGroup: true, Cut: CutPolicy{Bytes: 1 << 20, Age: time.Hour}},
		Recovered{Promised: n.promised})
	var bad Range
	for i, e := range n.log {
		next := batch.NextChain(e.Msg)
		if i == at {
			bad = Range{partition.Offset(e.BaseOffset), partition.Offset(e.NextOffset())}
			if !bodies {
				s.Skip(bad.To, partition.Offset(e.SegmentBase), next, i == len(n.log)-1)
				continue
			}
		}
		if err := s.Replay(&e.Header, next); err != nil {
			panic(err)
		}
	}
	s.Step(Damaged{Ranges: []Range{bad}})
	s.Opened()
	return s
}

func sent[M Message](effects []Effect) (out []M) {
	for _, e := range effects {
		if send, ok := e.(Send); ok {
			if m, ok := send.Message.(M); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

func cuts(effects []Effect) (n int) {
	for _, e := range effects {
		if _, ok := e.(TruncateLog); ok {
			n++
		}
	}
	return n
}

// What cannot be read is not vouched for, not compared and not cut, wherever it is (§1.11, R11).
func TestDamageIsNotVouchedFor(t *testing.T) {
	w := led(3, "a", "b", "c")
	log := w.nodes[2].log
	for at := 1; at < len(log); at++ {
		for _, bodies := range []bool{false, true} {
			s := damaged(w.nodes[2], at, bodies)
			bad := Range{partition.Offset(log[at].BaseOffset), partition.Offset(log[at].NextOffset())}
			got := slices.Clone(s.Step(Received{From: member(3), Message: Prepare{Epoch: 2}}))
			got = append(got, s.Step(Promised{Epoch: 2})...)
			if ok := sent[PrepareOK](got); len(ok) != 1 || len(ok[0].Faults) != 1 || ok[0].Faults[0] != bad || ok[0].End != 4 {
				t.Fatalf("damage at %v is told as %+v", bad, ok)
			}
			for from := 0; from < len(log); from++ {
				effects := s.Step(Received{From: member(3), Message: Append{
					Epoch: 2, Prev: partition.Offset(log[from].BaseOffset), PrevEpoch: epochBefore([]EpochStart{{1, 0}}, partition.Offset(log[from].BaseOffset)),
					PrevChain: log[from].Chain, Until: 4, HighWatermark: 4, Entries: log[from:],
				}})
				if q := quarantined(effects); q != "" || cuts(effects) > 0 || s.End() != 4 {
					t.Fatalf("damage at %v, an Append from %d: quarantined %q, end %d, effects %v", bad, from, q, s.End(), effects)
				}
				for _, ok := range sent[AppendOK](effects) {
					if ok.Match > bad.From || ok.Written > bad.From {
						t.Fatalf("damage at %v is vouched for: %+v", bad, ok)
					}
				}
			}
		}
	}
}

// Who has damage fences, and is no evidence: others are waited for, however long (§1.11).
func TestDamageIsNoEvidence(t *testing.T) {
	w := led(3, "a", "b")
	w.nominate(2, members(1, 2, 3))
	w.crash(w.nodes[1], false)
	w.start(w.nodes[1], nil)
	n := w.nodes[3]
	a := topology.Assignment{
		Epoch: 2, Leader: topology.Leader{Broker: 3, Replica: member(3).Replica, Incarnation: n.incarnation}, Members: members(1, 2, 3),
		Base: topology.Base{Epoch: 1, Members: members(1, 2, 3)}, Status: topology.Electing,
	}
	s := n.state
	s.Step(Assigned{Assignment: a, Revision: 99, Time: 1})
	s.Step(Promised{Epoch: 2})
	whole := s.prepareOK(2)
	faulty := whole
	faulty.Faults = []Range{{1, 2}}
	s.Step(Received{From: member(1), Message: faulty})
	for i := range 100 {
		s.Step(Tick{Elapsed: time.Duration(i) * time.Second})
	}
	if c, ok := s.role.(*candidate); !ok || c.phase != fencing {
		t.Fatalf("the candidate went on with damaged evidence: %+v", s.role)
	}
	s.Step(Received{From: member(2), Message: whole})
	if c, ok := s.role.(*candidate); !ok || c.phase == fencing {
		t.Fatalf("the candidate waits although a majority is sound: %+v", s.role)
	}
}

// A damaged replica stands for election only where it is the only one and all but some records is known.
func TestDamagedCandidate(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []partition.Member
		bodies  bool
		stands  bool
	}{
		{"alone, bodies of records", members(1), true, true},
		{"alone, headers", members(1), false, false},
		{"with others, bodies of records", members(1, 2, 3), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := led(len(c.members), "a", "b", "c")
			n := w.nodes[1]
			s := damaged(n, 2, c.bodies)
			a := topology.Assignment{
				Epoch: 2, Leader: topology.Leader{Broker: 1, Replica: member(1).Replica, Incarnation: n.incarnation + 1}, Members: c.members,
				Base: topology.Base{Epoch: 1, Members: c.members}, Status: topology.Electing,
			}
			var unfit bool
			for _, e := range s.Step(Assigned{Assignment: a, Revision: 99, Time: 1}) {
				if _, ok := e.(Unfit); ok {
					unfit = true
				}
			}
			if _, stands := s.role.(*candidate); stands != c.stands || unfit == c.stands {
				t.Errorf("stands: %v, unfit: %v", stands, unfit)
			}
			if !c.stands && c.bodies {
				// Repaired, it stands for what it was nominated for.
				s.Step(Damaged{})
				if _, stands := s.role.(*candidate); !stands {
					t.Error("a repaired replica does not stand")
				}
			}
		})
	}
}
