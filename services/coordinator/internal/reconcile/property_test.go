package reconcile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/moves"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

const atOnce = 3

// fate is a random life of a cluster, planned for by real planners.
type fate struct {
	t        *testing.T
	rand     *rand.Rand
	now      time.Time
	view     *topology.View
	told     reports.Reports
	planner  *reconcile.Planner
	caught   map[partition.UUID]bool // replicas that have all there is
	used     map[partition.UUID]bool // UUIDs
	revision int64
	uuids    uint64
}

func newFate(t *testing.T, seed uint64) *fate {
	f := &fate{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0), told: reports.Reports{},
		caught: map[partition.UUID]bool{}, used: map[partition.UUID]bool{},
		view: &topology.View{
			Brokers: map[partition.NodeID]topology.Broker{}, Topics: map[partition.UUID]topology.Versioned[topology.Topic]{},
			Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{},
		},
	}
	f.elect()
	for id := range partition.NodeID(5 + f.rand.IntN(3)) {
		b := topology.Broker{}
		b.Ident.ModRevision, b.Ident.Value.Zone = 1, string(rune('a'+f.rand.IntN(3)))
		f.view.Brokers[id+1] = b
		f.up(id + 1)
	}
	for range 1 + f.rand.IntN(3) {
		topic := f.newUUID()
		f.view.Topics[topic] = topology.Versioned[topology.Topic]{ModRevision: 1, Value: topology.Topic{ID: topic, ReplicationFactor: f.factor()}}
		for range 1 + f.rand.IntN(4) {
			var set []partition.Member
			for _, id := range f.rand.Perm(len(f.view.Brokers))[:f.view.Topics[topic].Value.ReplicationFactor] {
				set = append(set, partition.Member{Broker: partition.NodeID(id + 1), Replica: f.newUUID()})
			}
			leader := topology.Leader{Broker: set[0].Broker, Incarnation: 1, Replica: set[0].Replica}
			f.view.Partitions[topic] = append(f.view.Partitions[topic], topology.Versioned[topology.Assignment]{ModRevision: 1, Value: topology.First(leader, set)})
		}
	}
	return f
}

// elect makes another coordinator, which remembers nothing.
func (f *fate) elect() {
	f.planner = &reconcile.Planner{
		Creating: func(partition.UUID) bool { return false }, Grace: time.Hour, MovesAtOnce: atOnce, DeadAfter: time.Hour, NewUUID: f.newUUID,
	}
	f.told = reports.Reports{}
}

func (f *fate) newUUID() partition.UUID {
	f.uuids++
	return partition.UUIDOf(7, f.uuids)
}

func (f *fate) factor() uint32 { return []uint32{1, 3, 3, 5}[f.rand.IntN(4)] }

func (f *fate) broker() partition.NodeID {
	return partition.NodeID(1 + f.rand.IntN(len(f.view.Brokers)))
}

func (f *fate) up(id partition.NodeID) {
	f.revision++
	b := f.view.Brokers[id]
	b.Ident.Value.Incarnation++
	b.Live = &topology.Versioned[topology.Live]{ModRevision: f.revision, Value: topology.Live{Incarnation: b.Ident.Value.Incarnation}}
	f.view.Brokers[id] = b
	delete(f.told, id)
}

func (f *fate) each(do func(partition.ID, *topology.Versioned[topology.Assignment])) {
	topics := slices.SortedFunc(maps.Keys(f.view.Partitions), func(a, b partition.UUID) int { return slices.Compare(a[:], b[:]) })
	for _, topic := range topics { // a seed is one life
		for i := range f.view.Partitions[topic] {
			do(partition.ID{Topic: topic, Index: partition.Index(i)}, &f.view.Partitions[topic][i])
		}
	}
}

// happen lets something happen.
func (f *fate) happen() {
	id := f.broker()
	b := f.view.Brokers[id]
	switch f.rand.IntN(12) {
	case 0, 1:
		b.Live = nil
		f.view.Brokers[id] = b
		delete(f.told, id)
	case 2, 3, 4:
		f.up(id)
	case 5:
		b.Orders.Value.Drain = !b.Orders.Value.Drain
		f.view.Brokers[id] = b
	case 6:
		b.Orders.Value.Decommission = map[bool]*topology.Decommission{true: {}}[b.Orders.Value.Decommission == nil]
		f.view.Brokers[id] = b
	case 7:
		f.alter()
	case 8:
		f.reassign()
	case 9:
		f.report(id)
	case 10:
		f.now = f.now.Add(time.Duration(f.rand.IntN(3600)) * time.Second)
	case 11:
		if f.rand.IntN(3) == 0 {
			f.elect()
		}
	}
	f.each(func(_ partition.ID, a *topology.Versioned[topology.Assignment]) {
		for _, m := range append(a.Value.Learners, a.Value.Members...) {
			f.caught[m.Replica] = f.rand.IntN(3) > 0
		}
	})
}

func (f *fate) alter() {
	f.each(func(id partition.ID, _ *topology.Versioned[topology.Assignment]) {
		if topic := f.view.Topics[id.Topic]; id.Index == 0 && f.rand.IntN(3) == 0 {
			topic.Value.ReplicationFactor = f.factor()
			f.view.Topics[id.Topic] = topic
		}
	})
}

// reassign plans other brokers for a partition, as an operator would.
func (f *fate) reassign() {
	f.each(func(id partition.ID, a *topology.Versioned[topology.Assignment]) {
		if a.Value.Status != topology.Active || f.rand.IntN(3) > 0 {
			return
		}
		var target []partition.Member
		for _, b := range f.rand.Perm(len(f.view.Brokers))[:f.view.Topics[id.Topic].Value.ReplicationFactor] {
			m := partition.Member{Broker: partition.NodeID(b + 1), Replica: f.newUUID()}
			for _, old := range a.Value.Members {
				if old.Broker == m.Broker {
					m = old
				}
			}
			target = append(target, m)
		}
		f.put(a, a.Value.Plan(topology.Moving{Members: target, Why: topology.MoveReassign}))
	})
}

func (f *fate) report(id partition.NodeID) {
	r := reports.Report{From: reports.Process{Broker: id, Incarnation: f.view.Brokers[id].Ident.Value.Incarnation}, Draining: f.rand.IntN(4) == 0}
	for _, other := range slices.Sorted(maps.Keys(f.view.Brokers)) {
		if f.rand.IntN(3) == 0 {
			r.Suspects = append(r.Suspects, reports.Process{Broker: other, Incarnation: f.view.Brokers[other].Ident.Value.Incarnation})
		}
	}
	f.each(func(pid partition.ID, a *topology.Versioned[topology.Assignment]) {
		for _, m := range append(a.Value.Members, a.Value.Learners...) {
			if m.Broker == id && f.rand.IntN(4) == 0 {
				r.Lost = append(r.Lost, reports.Lost{Partition: pid, Replica: m.Replica})
			}
		}
	})
	f.told[id] = r
}

func (f *fate) put(a *topology.Versioned[topology.Assignment], next topology.Assignment) {
	f.revision++
	a.Value, a.ModRevision = next, f.revision
}

// activate lets leaders activate whose broker lives, with a majority of those they fence.
func (f *fate) activate() {
	f.each(func(_ partition.ID, a *topology.Versioned[topology.Assignment]) {
		live := 0
		for _, m := range a.Value.Base.Members {
			if f.view.Brokers[m.Broker].Live != nil {
				live++
			}
		}
		if a.Value.Status == topology.Electing && f.lives(a.Value.Leader) && live > len(a.Value.Base.Members)/2 {
			f.put(a, a.Value.Activate(0))
		}
	})
}

func (f *fate) lives(l topology.Leader) bool {
	incarnation, live := members.Incarnation(f.view.Brokers[l.Broker])
	return live && incarnation == l.Incarnation
}

// plan makes a plan, checks it and carries it out.
func (f *fate) plan() (changes int) {
	f.t.Helper()
	round := f.planner.Look(f.view, f.told, f.now)
	positions := survey.Positions{}
	for _, q := range round.Questions {
		for _, id := range q.Partitions {
			a, _ := f.view.Partition(id)
			for _, m := range a.Value.Members {
				if m.Broker == q.Broker && f.rand.IntN(5) > 0 {
					positions[survey.Replica{Partition: id, ID: m.Replica}] = survey.Position{
						LastEpoch: a.Value.Epoch, End: partition.Offset(f.rand.IntN(10)), Faulty: f.rand.IntN(10) == 0,
					}
				}
			}
		}
	}
	progress := map[partition.ID]survey.Progress{}
	for _, p := range round.Learners {
		a := p.Assignment.Value
		told := survey.Progress{Epoch: a.Epoch, HighWatermark: 10, End: 10, Replicas: map[partition.UUID]survey.ReplicaProgress{}}
		for _, m := range append(a.Learners, a.Members...) {
			if f.caught[m.Replica] {
				told.Replicas[m.Replica] = survey.ReplicaProgress{Match: 10}
			}
		}
		progress[p.ID] = told
	}
	plan := round.Decide(positions, progress)
	seen, started := map[partition.ID]bool{}, 0
	for _, c := range plan.Changes {
		a := &f.view.Partitions[c.ID.Topic][c.ID.Index]
		if err := f.wrong(c, *a); err != "" || seen[c.ID] {
			f.t.Fatalf("%s (again: %v)\nwas  %+v %+v\nnext %+v %+v\nchange %s %s %s", err, seen[c.ID], a.Value, a.Value.Moving, c.Next, c.Next.Moving, c.Why, c.Move, c.Reason)
		}
		seen[c.ID] = true
		if c.Move == moves.Started {
			started++
		}
		f.planner.Done(c, f.now)
		f.put(a, c.Next)
	}
	if started > atOnce {
		f.t.Fatalf("%d moves started at once", started)
	}
	return len(plan.Changes)
}

// wrong says what is wrong about a change, if something is.
func (f *fate) wrong(c reconcile.Change, was topology.Versioned[topology.Assignment]) string {
	a, next := was.Value, c.Next
	if c.ModRevision != was.ModRevision {
		return "it was planned from another assignment"
	}
	for _, set := range [][]partition.Member{next.Members, append(slices.Clone(next.Learners), next.Members...)} {
		ids := map[partition.UUID]partition.NodeID{}
		for _, m := range set {
			if _, twice := ids[m.Replica]; twice {
				return "a replica is there twice"
			}
			ids[m.Replica] = m.Broker
		}
	}
	if c.Why == "" {
		return f.wrongStep(c, a)
	}
	base := a.Base
	if a.Status == topology.Active {
		base = topology.Base{Epoch: a.Epoch, Members: a.Members}
	}
	switch leading := (partition.Member{Broker: next.Leader.Broker, Replica: next.Leader.Replica}); {
	case next.Epoch != a.Epoch+1 || next.Status != topology.Electing:
		return "a nomination is the next epoch, electing"
	case cmp.Diff(base, next.Base) != "":
		return "the base is not that of the last active epoch"
	case !slices.Contains(next.Members, leading) || !f.lives(next.Leader):
		return "the leader is no live member"
	case c.Move == "" && cmp.Diff([]any{a.Members, a.Learners, a.Moving}, []any{next.Members, next.Learners, next.Moving}) != "":
		return "a nomination has changed the members"
	case c.Move != "":
		return f.wrongMembers(c, a)
	}
	return ""
}

func (f *fate) wrongStep(c reconcile.Change, a topology.Assignment) string {
	next := c.Next
	still := next
	still.Learners, still.Moving = a.Learners, a.Moving
	if cmp.Diff(a, still) != "" {
		return "a step has changed more than learners and plan"
	}
	if a.Status != topology.Active {
		return "it is electing"
	}
	if c.Move != moves.Started {
		return ""
	}
	if a.Moving != nil && cmp.Diff(a.Moving, next.Moving) != "" {
		return "a plan was replaced by another"
	}
	brokers := map[partition.NodeID]bool{}
	for _, m := range next.Moving.Members {
		if brokers[m.Broker] {
			return "two members of the plan are on one broker"
		}
		brokers[m.Broker] = true
	}
	factor := int(f.view.Topics[c.ID.Topic].Value.ReplicationFactor)
	if n := len(next.Moving.Members); c.Reason != topology.MoveReassign && n != factor && n != len(a.Members) {
		return fmt.Sprintf("%d members are planned", n)
	}
	for _, m := range next.Learners {
		if f.used[m.Replica] {
			return "a UUID is used again"
		}
		if a.Moving == nil {
			f.used[m.Replica] = true
		}
	}
	return ""
}

func (f *fate) wrongMembers(c reconcile.Change, a topology.Assignment) string {
	if a.Status != topology.Active || a.Moving == nil || cmp.Diff(a.Moving.Members, c.Next.Members) != "" || c.Next.Moving != nil || c.Next.Learners != nil {
		return "the members are not those that were planned"
	}
	caught := 0
	for _, m := range c.Next.Members {
		leads := m.Replica == a.Leader.Replica
		if leads || f.caught[m.Replica] {
			caught++
		}
		if !leads && !f.caught[m.Replica] && !slices.Contains(a.Members, m) {
			return fmt.Sprintf("what is added on %d has not caught up", m.Broker)
		}
	}
	if caught <= len(c.Next.Members)/2 {
		return "no majority has caught up"
	}
	return ""
}

// heal ends all trouble, and says what does not become as it should be.
func (f *fate) heal() string {
	f.told = reports.Reports{}
	for _, id := range slices.Sorted(maps.Keys(f.view.Brokers)) {
		b := f.view.Brokers[id]
		b.Orders.Value = topology.BrokerOrders{}
		f.view.Brokers[id] = b
		if b.Live == nil {
			f.up(id)
		}
	}
	for range 400 {
		f.now = f.now.Add(time.Second)
		f.each(func(_ partition.ID, a *topology.Versioned[topology.Assignment]) {
			for _, m := range append(a.Value.Learners, a.Value.Members...) {
				f.caught[m.Replica] = true
			}
		})
		f.plan()
		f.activate()
	}
	bad := ""
	f.each(func(id partition.ID, a *topology.Versioned[topology.Assignment]) {
		if a.Value.Moving != nil || a.Value.Learners != nil || len(a.Value.Members) != int(f.view.Topics[id.Topic].Value.ReplicationFactor) ||
			a.Value.Status != topology.Active || !f.lives(a.Value.Leader) {
			bad = fmt.Sprintf("%s: %+v, moving %+v", id, a.Value, a.Value.Moving)
		}
	})
	if bad == "" && f.plan() != 0 {
		return "it does not come to rest"
	}
	return bad
}

// In any life of a cluster: one change of a partition at a time, the base never from an election, no member set without a caught-up majority, the
// replication factor kept or restored, and rest where there is nothing to do.
func TestAnyLife(t *testing.T) {
	changes := 0
	for seed := range uint64(150) {
		f := newFate(t, seed)
		for range 80 {
			f.happen()
			f.now = f.now.Add(time.Duration(f.rand.IntN(2000)) * time.Millisecond)
			changes += f.plan()
			if f.rand.IntN(4) > 0 {
				f.activate()
			}
		}
		if bad := f.heal(); bad != "" {
			t.Fatalf("seed %d: %s", seed, bad)
		}
	}
	t.Logf("%d changes", changes)
}
