package standin

import (
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// World is a cluster of two brokers with one topic, "orders", whose partitions broker 1 leads.
type World struct {
	Net     *memnet.Network
	Views   *Views
	Brokers [3]*Node // from 1, on the hosts b1 and b2
	Topic   topology.Topic
	Logs    []*Log // by partition
}

// NewWorld makes one; it ends with the test.
func NewWorld(t testing.TB, partitions int) *World {
	t.Helper()
	w := &World{Net: memnet.New(), Views: NewViews()}
	for id := 1; id <= 2; id++ {
		host := fmt.Sprintf("b%d", id)
		w.Brokers[id] = NewBroker(t, w.Net.At(host), host+":6164")
		w.Views.AddBroker(partition.NodeID(id), w.Brokers[id].Addr)
	}
	w.Topic, w.Logs = w.AddTopic("orders", partitions)
	return w
}

// AddTopic adds a topic of the default namespace whose partitions broker 1 leads.
func (w *World) AddTopic(name string, partitions int) (topology.Topic, []*Log) {
	topic := w.Views.AddTopic(name, partitions)
	logs := make([]*Log, partitions)
	for i := range logs {
		logs[i] = NewLog()
		id := partition.ID{Topic: topic.ID, Index: partition.Index(i)}
		w.Brokers[1].Serve(id, logs[i])
		w.Views.Lead(id, 1)
	}
	return topic, logs
}

// ID names a partition of "orders".
func (w *World) ID(index int) partition.ID {
	return partition.ID{Topic: w.Topic.ID, Index: partition.Index(index)}
}

// Lead makes a broker serve and lead a partition of "orders".
func (w *World) Lead(index int, broker partition.NodeID) {
	w.Brokers[broker].Serve(w.ID(index), w.Logs[index])
	w.Views.Lead(w.ID(index), broker)
}

// Tierers adds two tierers, on the hosts t1 and t2, that serve partition 0 of "orders", and gives them in the order in which they are asked.
func (w *World) Tierers(t testing.TB) []*Node {
	t.Helper()
	byAddr := map[string]*Node{}
	for _, host := range []string{"t1", "t2"} {
		n := NewTierer(t, w.Net.At(host), host+":6364")
		n.Serve(w.ID(0), w.Logs[0])
		w.Views.AddTierer(host, n.Addr)
		byAddr[n.Addr] = n
	}
	ordered := []*Node{}
	for _, addr := range route.Of(w.Views.View()).Tierers(w.ID(0)) {
		ordered = append(ordered, byAddr[addr])
	}
	return ordered
}

// Append puts records into a partition of "orders", one a batch; append times are one, two, three … seconds.
func (w *World) Append(t testing.TB, index int, values ...string) {
	t.Helper()
	for _, value := range values {
		msg := One(t, value, batch.Key128{})
		h, err := batch.ParseHeader(msg)
		if err != nil {
			t.Fatal(err)
		}
		w.Logs[index].Append(msg, h, 1, int64(w.Logs[index].End()+1)*1_000_000)
	}
}

// One builds a batch of one record.
func One(t testing.TB, value string, key batch.Key128) []byte {
	t.Helper()
	var b batch.Builder
	if err := b.Add(batch.Record{Value: []byte(value), Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	msg, err := b.Build(nil, batch.BuildOptions{DedupeKey: key})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// Values gives the values of the records of a body.
func Values(t testing.TB, body []byte) []string {
	t.Helper()
	all := []string{}
	var r batch.Reader
	var rec batch.Record
	for msg, err := range batch.Each(body) {
		if err == nil {
			err = r.Reset(msg)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Len() {
			r.Record(i, &rec)
			all = append(all, string(rec.Value))
		}
	}
	return all
}

// Body gives the batches of a partition of "orders" from an offset on.
func (w *World) Body(index int, offset uint64) []byte {
	log := w.Logs[index]
	log.mu.Lock()
	defer log.mu.Unlock()
	body, _ := log.read(offset, log.mu.next, 1<<30)
	return body
}
