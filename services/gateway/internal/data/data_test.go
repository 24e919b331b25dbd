package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

func TestHello(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		hello frame.HelloParams
		want  string
	}{
		"client":                {frame.HelloParams{}, ""},
		"client of this":        {frame.HelloParams{ClusterID: w.Views.View().Cluster.Value.ID.String()}, ""},
		"client of another":     {frame.HelloParams{ClusterID: "another"}, "wrong-cluster"},
		"broker":                {frame.HelloParams{Role: wirecapnp.Role_broker}, "denied"},
		"gateway":               {frame.HelloParams{Role: wirecapnp.Role_gateway}, "denied"},
		"version of the future": {frame.HelloParams{MinVersion: 99, MaxVersion: 99}, "unsupported-version"},
	} {
		if _, err := w.dial(t, c.hello); kindOf(t, err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	w.Views.Change(func(v *topology.View) { v.Cluster = topology.Versioned[topology.Cluster]{} })
	if _, err := w.dial(t, frame.HelloParams{}); kindOf(t, err) != "unavailable" {
		t.Errorf("before the cluster is known: %v", err)
	}
}

func TestMetadata(t *testing.T) {
	w := newWorld(t, nil)
	w.Views.Lead(w.ID(2), 9) // nobody there
	client := w.client(t)
	reply, err := client.Call(t.Context(), metadataOf(false, "orders", "missing"))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Release()
	metadata, _ := reply.Response.Metadata()
	topics, _ := metadata.Topics()
	orders := topics.At(0)
	id, _ := orders.Id()
	partitions, _ := orders.Partitions()
	if partition.UUIDOf(id.Hi(), id.Lo()) != w.Topic.ID || partitions.Len() != 4 || orders.MapVersion() != 1 ||
		orders.BatchBytesMax() != 1<<20 || orders.Durability() != wirecapnp.Durability_fsyncQuorum || orders.HasError() {
		t.Errorf("orders: %v", orders)
	}
	for i := range 4 {
		p := partitions.At(i)
		wantLeader := uint64(1)
		if i == 2 {
			wantLeader = 0
		}
		if p.Index() != uint32(i) || p.HashFrom() != uint64(i)<<62 || p.Leader() != wantLeader {
			t.Errorf("partition %d: %v", i, p)
		}
	}
	wire, _ := topics.At(1).Error()
	if !topics.At(1).HasError() || wire.Kind() != wirecapnp.ErrorKind_notFound {
		t.Errorf("missing: %v", topics.At(1))
	}
}

func TestMetadataCreatesWhatIsMissing(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(t)
	reply, err := client.Call(t.Context(), metadataOf(true, "orders", "fresh", "../etc"))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Release()
	metadata, _ := reply.Response.Metadata()
	topics, _ := metadata.Topics()
	fresh, _ := topics.At(1).Partitions()
	refused, _ := topics.At(2).Error()
	if topics.At(1).HasError() || fresh.Len() != 1 || fresh.At(0).Leader() != 1 {
		t.Errorf("fresh: %v", topics.At(1))
	}
	if refused.Kind() != wirecapnp.ErrorKind_invalid {
		t.Errorf("bad name: %v", topics.At(2))
	}
	if got := fmt.Sprint(w.created.mu.names); got != "[fresh ../etc]" {
		t.Errorf("created %s", got)
	}
	if _, err := client.Call(t.Context(), metadataOf(false, slices.Repeat([]string{"orders"}, 101)...)); kindOf(t, err) != "too-large" {
		t.Errorf("too many names: %v", err)
	}
}

// reseal renews the header CRC of a message whose header was changed.
func reseal(msg []byte) []byte {
	sum := crc32.Checksum(msg[:batch.HeaderBytes-4], crc32.MakeTable(crc32.Castagnoli))
	copy(msg[batch.HeaderBytes-4:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	return msg
}

// Invariant 1, as a table of what a producer may do wrong.
func TestBadPublishes(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(t)
	good := func() []byte { return standin.One(t, "hello", batch.Key128{}) }
	w.Views.Change(func(v *topology.View) {
		topic := v.Topics[w.Topic.ID]
		topic.Value.BatchBytesMax = 64 << 10
		v.Topics[w.Topic.ID] = topic
	})
	large := standin.One(t, strings.Repeat("x", 64<<10), batch.Key128{})
	control, err := batch.BuildControl(nil, func(c batchcapnp.Control) error { c.NewTrimTo(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	stamped := good()
	batch.Stamp(stamped, batch.Stamps{BaseOffset: 7})
	for name, c := range map[string]struct {
		id   partition.ID
		body []byte
		want string
	}{
		"good":                  {w.ID(0), good(), ""},
		"nothing":               {w.ID(0), nil, "invalid"},
		"half a header":         {w.ID(0), good()[:100], "invalid"},
		"half a batch":          {w.ID(0), good()[:batch.HeaderBytes+8], "invalid"},
		"two batches":           {w.ID(0), append(good(), good()...), "invalid"},
		"garbage":               {w.ID(0), bytes.Repeat([]byte{0xff}, 500), "invalid"},
		"a flipped header bit":  {w.ID(0), flip(good(), 64+16), "corrupt"},
		"a flipped body bit":    {w.ID(0), flip(good(), len(good())-1), "corrupt"}, // told by the broker
		"stamped already":       {w.ID(0), stamped, "invalid"},
		"flagged as rewritten":  {w.ID(0), reseal(flip(good(), 16+6)), "invalid"},
		"no record":             {w.ID(0), reseal(flip(good(), 16+64)), "invalid"},
		"a control batch":       {w.ID(0), control, "invalid"},
		"more than the topic's": {w.ID(0), large, "too-large"},
		"more than any":         {w.ID(0), make([]byte, 9<<20), "too-large"},
		"unknown partition":     {w.ID(4), good(), "invalid"},
		"unknown topic":         {partition.ID{Topic: partition.UUIDOf(9, 9)}, good(), "not-found"},
	} {
		reply, err := client.Call(t.Context(), publishTo(c.id), c.body)
		if kindOf(t, err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			reply.Release()
		}
	}
	if w.Logs[0].End() != 1 {
		t.Errorf("%d records were stored", w.Logs[0].End())
	}
}

func flip(msg []byte, at int) []byte {
	msg[at] ^= 1
	return msg
}

// Invariant 2 over a real connection, with the leader changing under way, and what went in comes out.
func TestPublishesAreSplicedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 200
		w := newWorld(t, nil)
		client := w.client(t)
		w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
			if req.Message.Which() == wirecapnp.Request_Which_publish {
				_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_notLeader, "no more"))
				return true
			}
			return false
		})
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			time.Sleep(200 * time.Millisecond)
			for i := range w.Logs {
				w.Lead(i, 2)
			}
		}()
		pending := []*frame.Pending{}
		for i := range each {
			for p := range w.Logs {
				one, err := client.Start(t.Context(), publishTo(w.ID(p)), standin.One(t, fmt.Sprint(p, "/", i), batch.Key128{}))
				if err != nil {
					t.Fatal(err)
				}
				pending = append(pending, one)
			}
		}
		for i, one := range pending {
			reply, err := one.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := reply.Response.Publish()
			if answer.BaseOffset() != uint64(i/len(w.Logs)) || !answer.OffsetKnown() || answer.Durability() != wirecapnp.Durability_fsyncQuorum {
				t.Fatalf("publish %d: %v", i, answer)
			}
			reply.Release()
		}
		for p := range w.Logs {
			reply, err := client.Call(t.Context(), fetchFrom(w.ID(p), 0, 0))
			if err != nil {
				t.Fatal(err)
			}
			values := standin.Values(t, reply.Body)
			if len(values) != each {
				t.Fatalf("partition %d: %d records", p, len(values))
			}
			for i, value := range values {
				if want := fmt.Sprint(p, "/", i); value != want {
					t.Fatalf("partition %d, record %d: %q, want %q", p, i, value, want)
				}
			}
			reply.Release()
		}
		<-moved
	})
}

// A read of any age is the same call: hot from the broker, cold from a tierer, and the error carries the offset to go on from.
func TestFetch(t *testing.T) {
	w := newWorld(t, nil)
	w.Append(t, 0, "a", "b", "c", "d")
	w.Logs[0].Trim(1)
	w.Logs[0].Tier(3, 3)
	w.Tierers(t)
	client := w.client(t)
	for offset, want := range map[uint64]string{1: "[b c]", 3: "[d]"} {
		reply, err := client.Call(t.Context(), fetchFrom(w.ID(0), offset, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(standin.Values(t, reply.Body)); got != want {
			t.Errorf("from %d: %s, want %s", offset, got, want)
		}
		reply.Release()
	}
	_, err := client.Call(t.Context(), fetchFrom(w.ID(0), 0, 0))
	if trimmed, ok := errors.AsType[*frame.RemoteError](err); !ok || trimmed.Kind != wirecapnp.ErrorKind_offsetTrimmed || trimmed.Offset != 1 {
		t.Errorf("trimmed: %v", err)
	}
	late, err := client.Start(t.Context(), fetchFrom(w.ID(0), 4, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	w.Append(t, 0, "e")
	reply, err := late.Wait(t.Context())
	if err != nil || fmt.Sprint(standin.Values(t, reply.Body)) != "[e]" {
		t.Errorf("long poll: %v", err)
	}
	reply.Release()
}

func TestListOffsetsAndInitProducer(t *testing.T) {
	w := newWorld(t, nil)
	w.Append(t, 0, "a", "b", "c")
	client := w.client(t)
	for name, c := range map[string]struct {
		set  func(wirecapnp.ListOffsetsRequest)
		want uint64
	}{
		"earliest": {wirecapnp.ListOffsetsRequest.SetEarliest, 0},
		"latest":   {wirecapnp.ListOffsetsRequest.SetLatest, 3},
		"time":     {func(r wirecapnp.ListOffsetsRequest) { r.SetTime(1_500_000) }, 1},
	} {
		reply, err := client.Call(t.Context(), func(req wirecapnp.Request) error {
			in, err := req.NewListOffsets()
			if err != nil {
				return err
			}
			c.set(in)
			topic, err := in.NewTopic()
			setTopic(topic, w.Topic.ID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if answer, _ := reply.Response.ListOffsets(); answer.Offset() != c.want || answer.HighWatermark() != 3 {
			t.Errorf("%s: %v", name, answer)
		}
		reply.Release()
	}
	reply, err := client.Call(t.Context(), func(req wirecapnp.Request) error { _, err := req.NewInitProducer(); return err })
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := reply.Response.InitProducer(); answer.ProducerId() == 0 {
		t.Errorf("producer: %v", answer)
	}
	reply.Release()
}

// Invariant 4.
func TestClientsMayNotAdminister(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(t)
	for name, fill := range map[string]func(wirecapnp.Request) error{
		"seal":        func(r wirecapnp.Request) error { _, err := r.NewSeal(); return err },
		"trim":        func(r wirecapnp.Request) error { _, err := r.NewTrim(); return err },
		"state":       func(r wirecapnp.Request) error { _, err := r.NewPartitionState(); return err },
		"harvest":     func(r wirecapnp.Request) error { _, err := r.NewHarvest(); return err },
		"commit tier": func(r wirecapnp.Request) error { _, err := r.NewCommitTier(); return err },
	} {
		if _, err := client.Call(t.Context(), fill); kindOf(t, err) != "denied" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(w.Brokers[1].Hellos()); n != 0 {
		t.Errorf("%d connections to the broker were made", n)
	}
}

// Memory: with the budget taken a publish is refused with a hint, and goes through afterwards; nothing is left reserved.
func TestPublishOverBudgetIsRefused(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Gate = admission.New(1<<20, 1<<20, 1, prometheus.NewRegistry()) })
	client := w.client(t)
	body := standin.One(t, strings.Repeat("x", 500<<10), batch.Key128{})
	if err := w.server.cfg.Gate.Bodies().Reserve(t.Context(), 800<<10); err != nil {
		t.Fatal(err)
	}
	_, err := client.Call(t.Context(), publishTo(w.ID(0)), body)
	if refused, ok := errors.AsType[*frame.RemoteError](err); !ok || refused.Kind != wirecapnp.ErrorKind_overloaded || refused.RetryAfter <= 0 {
		t.Fatalf("over budget: %v", err)
	}
	w.server.cfg.Gate.Bodies().Release(800 << 10)
	reply, err := client.Call(t.Context(), publishTo(w.ID(0)), body)
	if err != nil {
		t.Fatal(err)
	}
	reply.Release()
	_ = client.Close()
}
