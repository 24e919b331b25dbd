package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker"
)

// A record all the way through a broker: registered, elected, published, fsynced, fetched, waited for.
func TestPublishAndFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(t, memfs.New())
		if live := w.live(t, 1); live.Capnp != n.Addrs().Capnp || live.HTTP != n.Addrs().HTTP || live.ID != "1" || live.Node != 1 {
			t.Errorf("registered as %+v, listens on %+v", live, n.Addrs())
		}
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		first, err := publish(t.Context(), client, s.next("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		want := ack{Base: 1, Last: 3, Known: true, Epoch: 1, Durability: wirecapnp.Durability_fsyncQuorum} // the epoch's start has offset 0
		if first != want {
			t.Errorf("got %+v, want %+v", first, want)
		}
		waited := make(chan fetched)
		go func() {
			got, err := fetch(t.Context(), client, 4, 10*time.Second)
			if err != nil {
				t.Errorf("long poll: %v", err)
			}
			waited <- got
		}()
		synctest.Wait()
		if _, err := publish(t.Context(), client, s.next("d")); err != nil {
			t.Fatal(err)
		}
		if got := <-waited; !slices.Equal(got.Values, []string{"d"}) || got.Next != 5 {
			t.Errorf("the long poll gave %+v", got)
		}
		if got := readAll(t, client); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
			t.Errorf("read %q", got)
		}
		start := time.Now()
		if got, err := fetch(t.Context(), client, 5, 3*time.Second); err != nil || got.Next != 5 || time.Since(start) != 3*time.Second {
			t.Errorf("a long poll with nothing to read gave %+v, %v after %v", got, err, time.Since(start))
		}
		_, err = fetch(t.Context(), client, 99, 0)
		if f := wantKind(t, err, fault.OffsetOutOfRange); f.Offset != 5 || f.Epoch != 1 {
			t.Errorf("the error has offset %d and epoch %d, want the high watermark and the epoch", f.Offset, f.Epoch)
		}
	})
}

// After kill −9 and a power cut at once: whatever the disk kept, the next life is registered at once, has every acknowledged record, knows what
// was sent before, and takes more. The killed life, if it was only paused, ends.
func TestKillAndPowerCut(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				disk := memfs.New()
				killed := w.start(t, disk)
				w.create(t, nil)
				killed.ready()
				client := killed.client(wirecapnp.Role_gateway)
				s := &session{t: t, producer: 7}
				var acks []ack
				var values []string
				for i := range 20 {
					value := fmt.Sprintf("record %d", i)
					got, err := publish(t.Context(), client, s.next(value))
					if err != nil {
						t.Fatal(err)
					}
					acks, values = append(acks, got), append(values, value)
				}
				survived := disk.Crash(rand.New(rand.NewPCG(seed, 1)))
				n := w.start(t, survived)
				w.nominate(t, 2)
				n.ready()
				wantKind(t, killed.wait(), fault.Conflict)

				client = n.client(wirecapnp.Role_gateway)
				if diff := cmp.Diff(values, readAll(t, client)); diff != "" {
					t.Errorf("records after the power cut (-want +got):\n%s", diff)
				}
				for _, i := range []int{19, 15} { // within the remembered five
					again, err := publish(t.Context(), client, s.sent[i])
					if err != nil || !again.Dup || !again.Known || again.Base != acks[i].Base || again.Epoch != 2 {
						t.Errorf("batch %d sent again gave %+v, %v; it was %+v", i, again, err, acks[i])
					}
				}
				if again, err := publish(t.Context(), client, s.sent[3]); err != nil || !again.Dup || again.Known {
					t.Errorf("an old batch sent again gave %+v, %v; want a duplicate of unknown offset", again, err)
				}
				if _, err := publish(t.Context(), client, s.next("one more")); err != nil {
					t.Errorf("publish after the power cut: %v", err)
				}
				if got := readAll(t, client); !slices.Equal(got, append(values, "one more")) {
					t.Errorf("read %d records, want 21", len(got))
				}
			})
		})
	}
}

// A stop answers what is in flight, says goAway, takes the registration back and leaves a log that opens clean.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		disk := memfs.New()
		n := w.start(t, disk)
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		p, err := client.Start(t.Context(), publishTo(orders), s.next("in flight"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		if err := n.end(); err != nil {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Errorf("what was in flight: %v", err)
		}
		if !client.GoingAway() {
			t.Error("no goAway was said")
		}
		if _, ok, _, err := w.store.Get(t.Context(), "/sq/brokers/1/live"); ok || err != nil {
			t.Errorf("still registered: %v, %v", ok, err)
		}
		again := w.start(t, disk)
		w.nominate(t, 2)
		again.ready()
		if got := readAll(t, again.client(wirecapnp.Role_gateway)); !slices.Equal(got, []string{"in flight"}) {
			t.Errorf("read %q", got)
		}
	})
}

// etcd unreachable at start: the broker says so, waits, and serves when it is there; unreachable later: it serves on.
func TestEtcdAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := func(memstore.Call) memstore.Fault { return memstore.Unavailable }
		w.store.SetFaults(away)
		n := w.start(t, memfs.New())
		time.Sleep(time.Minute)
		if err := n.Ready(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "etcd") {
			t.Errorf("ready says %v", err)
		}
		w.store.SetFaults(nil)
		w.live(t, 1)
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		w.store.SetFaults(away)
		for range 10 {
			time.Sleep(time.Minute)
			if _, err := publish(t.Context(), client, s.next("x")); err != nil {
				t.Errorf("publish while etcd is away: %v", err)
			}
		}
		w.store.SetFaults(nil)
	})
}

// Two processes on one directory, and directories of others (doc.go 1).
func TestWrongDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		disk := memfs.New()
		n := w.start(t, disk)
		w.live(t, 1)
		_, err := broker.New(t.Context(), w.config(), w.deps(disk))
		wantKind(t, err, fault.DataDirInUse)
		if err := n.end(); err != nil {
			t.Fatal(err)
		}
		cfg := w.config()
		cfg.NodeID = 2
		_, err = broker.New(t.Context(), cfg, w.deps(disk))
		wantKind(t, err, fault.Conflict)
		cfg = w.config()
		cfg.ClusterID = topicID.String()
		_, err = broker.New(t.Context(), cfg, w.deps(disk))
		wantKind(t, err, fault.WrongCluster)
		other := newWorld(t).start(t, disk) // the cluster is only told by its etcd
		wantKind(t, other.wait(), fault.WrongCluster)
	})
}

// What a gateway may send wrong, against the whole broker: each a typed answer, and nothing in the log.
func TestBadPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(t, memfs.New())
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		good := s.next("x")
		_, err := client.Call(t.Context(), publishTo(partition.ID{Topic: replicaID}), good)
		if err == nil || !strings.Contains(err.Error(), "notLeader") {
			t.Errorf("an unknown topic gave %v", err)
		}
		for name, test := range map[string]struct {
			message []byte
			kind    fault.Kind
		}{
			"empty":      {nil, fault.Invalid},
			"garbage":    {slices.Repeat([]byte{0xa5}, 1000), fault.Invalid},
			"too large":  {(&session{t: t}).next(strings.Repeat("x", 64<<10)), fault.TooLarge},
			"gap":        {(&session{t: t, producer: 9, sequence: 5}).next("x"), fault.UnknownProducer},
			"two at one": {append(slices.Clone(good), good...), fault.Invalid},
		} {
			if _, err := publish(t.Context(), client, test.message); !fault.Is(err, test.kind) {
				t.Errorf("%s gave %v, want %v", name, err, test.kind)
			}
		}
		if got := readAll(t, client); len(got) != 0 {
			t.Errorf("the log has %q", got)
		}
		if _, err := publish(t.Context(), client, good); err != nil {
			t.Errorf("a good batch: %v", err)
		}
	})
}
