package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/operator"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// brokers answers for all brokers what the scenario said, and asks nobody.
type brokers struct {
	w         *world
	positions map[survey.Replica]survey.Position
	caught    map[survey.Replica]bool
	mute      map[partition.NodeID]bool
}

func (b *brokers) Positions(_ context.Context, questions []survey.Question) (survey.Positions, map[partition.NodeID]error) {
	told, failed := survey.Positions{}, map[partition.NodeID]error{}
	v := b.w.active().views.View()
	for _, q := range questions {
		if b.mute[q.Broker] {
			failed[q.Broker] = errors.New("it is mute")
			continue
		}
		for _, id := range q.Partitions {
			for _, m := range replicas(v, id) {
				at, known := b.positions[survey.Replica{Partition: id, ID: m.Replica}]
				if known && m.Broker == q.Broker {
					told[survey.Replica{Partition: id, ID: m.Replica}] = at
				}
			}
		}
	}
	return told, failed
}

// Progress is of a leader at 100, whose other replicas are there or at 0.
func (b *brokers) Progress(_ context.Context, leader partition.NodeID, id partition.ID) (survey.Progress, error) {
	v := b.w.active().views.View()
	a, _ := v.Partition(id)
	out := survey.Progress{Epoch: a.Value.Epoch, HighWatermark: 100, End: 100, Replicas: map[partition.UUID]survey.ReplicaProgress{}}
	for _, m := range replicas(v, id) {
		at := survey.ReplicaProgress{}
		if m.Broker == leader || b.caught[survey.Replica{Partition: id, ID: m.Replica}] {
			at.Match = 100
		}
		out.Replicas[m.Replica] = at
	}
	return out, nil
}

func replicas(v *topology.View, id partition.ID) []partition.Member {
	a, _ := v.Partition(id)
	return slices.Concat(a.Value.Learners, a.Value.Members, a.Value.Base.Members)
}

// named finds a partition as T/N.
func (w *world) named(what string) (partition.ID, topology.Assignment, error) {
	name, index, _ := strings.Cut(what, "/")
	v := w.active().views.View()
	id := partition.ID{Topic: v.Names[topology.Name{Namespace: topology.DefaultNamespace, Topic: name}], Index: partition.Index(number(index))}
	a, ok := v.Partition(id)
	if !ok {
		return id, a.Value, fmt.Errorf("no partition %s", what)
	}
	return id, a.Value, nil
}

// replica finds the replica of T/N on a broker.
func (w *world) replica(what, broker string) (survey.Replica, error) {
	id, a, err := w.named(what)
	if err != nil {
		return survey.Replica{}, err
	}
	for _, m := range slices.Concat(a.Learners, a.Members, a.Base.Members) {
		if m.Broker == partition.NodeID(number(broker)) {
			return survey.Replica{Partition: id, ID: m.Replica}, nil
		}
	}
	return survey.Replica{}, fmt.Errorf("no replica of %s on %s", what, broker)
}

// say is what brokers say or would answer:
//
//	report N [suspects=N,N] [lost=T/N,T/N] [draining] [disk=full|slow]
//	position N T/N epoch=E end=O [hw=O] [faulty]   what N's replica answers
//	mute N | speak N                               N answers no question about positions
//	caught T/N N                                   the leader finds N's replica caught up
func (w *world) say(words []string) error {
	o := options(words[2:])
	id := partition.NodeID(number(words[1]))
	switch words[0] {
	case "mute", "speak":
		w.told.mute[id] = words[0] == "mute"
		return nil
	case "caught":
		replica, err := w.replica(words[1], words[2])
		w.told.caught[replica] = true
		return err
	case "position":
		replica, err := w.replica(words[2], words[1])
		_, faulty := o["faulty"]
		w.told.positions[replica] = survey.Position{
			LastEpoch: partition.Epoch(number(o["epoch"])), End: partition.Offset(number(o["end"])),
			HighWatermark: partition.Offset(number(o["hw"])), Faulty: faulty,
		}
		return err
	}
	brokers := w.active().views.View().Brokers
	r := reports.Report{From: reports.Process{Broker: id, Incarnation: brokers[id].Ident.Value.Incarnation}}
	_, r.Draining = o["draining"]
	for _, suspect := range list(o["suspects"]) {
		s := partition.NodeID(number(suspect))
		r.Suspects = append(r.Suspects, reports.Process{Broker: s, Incarnation: brokers[s].Ident.Value.Incarnation})
	}
	for _, lost := range list(o["lost"]) {
		replica, err := w.replica(lost, words[1])
		if err != nil {
			return err
		}
		r.Lost = append(r.Lost, reports.Lost{Partition: replica.Partition, Replica: replica.ID})
	}
	if state := o["disk"]; state != "" {
		r.Disks = []reports.Disk{{State: state}}
	}
	w.book.Take(r, w.clock.Now())
	return nil
}

// operate is what an operator asks for:
//
//	drain N | undrain N | decommission N | recommission N | canstop N
//	alter T rf=N
//	reassign T[/N] [brokers=N,N,N] [rf=N] [cancel] [dry]
//	transfer T/N [to=N]
//	recover T/N [accept]
func (w *world) operate(words []string) (string, error) {
	c := w.active()
	id := partition.NodeID(number(words[1]))
	name, index, whole := strings.Cut(words[1], "/")
	topic := topology.Name{Namespace: topology.DefaultNamespace, Topic: name}
	o := options(words[2:])
	switch words[0] {
	case "drain", "undrain":
		return "", c.operator.Drain(w.ctx, id, words[0] == "drain")
	case "decommission":
		return "", c.operator.Decommission(w.ctx, id, false)
	case "recommission":
		return "", c.operator.Recommission(w.ctx, id)
	case "canstop":
		return w.canStop(c, id)
	case "alter":
		_, err := c.catalog.AlterTopic(w.ctx, catalog.AlterTopic{Name: topic, Change: func(t *topology.Topic) error {
			t.ReplicationFactor = number(o["rf"])
			return nil
		}})
		return "", err
	case "transfer":
		_, err := c.operator.Transfer(w.ctx, topic, number(index), partition.NodeID(number(o["to"])))
		return "", err
	case "recover":
		_, accept := o["accept"]
		r, err := c.operator.Recover(w.ctx, topic, number(index), accept)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("survivor=%d epoch=%d end=%d hw=%d new-epoch=%d\n%s\n", r.Survivor.Broker, r.LastEpoch, r.End, r.HighWatermark, r.Epoch, r.Loss), nil
	}
	ask := operator.Reassign{Topic: topic, Factor: number(o["rf"])}
	_, ask.Cancel = o["cancel"]
	_, ask.ValidateOnly = o["dry"]
	if whole {
		n := number(index)
		ask.Partition = &n
	}
	for _, broker := range list(o["brokers"]) {
		ask.Brokers = append(ask.Brokers, partition.NodeID(number(broker)))
	}
	planned, err := c.operator.Reassign(w.ctx, ask)
	return fmt.Sprintf("%d planned\n", len(planned)), err
}

// canStop moves the clock on where the two looks are apart.
func (w *world) canStop(c *coordinator, id partition.NodeID) (string, error) {
	pending := w.clock.Pending()
	ctx, answered := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w.clock.AwaitPending(ctx, pending+1) == nil {
			w.clock.Advance(250 * time.Millisecond)
		}
	}()
	safe, reason, err := c.operator.CanStop(w.ctx, id)
	answered()
	<-done
	return fmt.Sprintf("%v: %s\n", safe, reason), err
}

// showBrokers tells of those that are not simply there.
func (w *world) showBrokers() string {
	var out strings.Builder
	for _, b := range members.Of(w.active().views.View(), w.book.Now(w.clock.Now())) {
		fmt.Fprintf(&out, "broker %d live=%v leads=%d replicas=%d draining=%v leaving=%v suspected=%v\n",
			b.ID, b.Live, b.Leads, b.Replicas, b.Draining, b.Leaving, b.SuspectedBy)
	}
	return out.String()
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
