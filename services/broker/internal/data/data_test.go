package data_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func publishFill(epoch uint64, ackNone bool) func(wirecapnp.Request) error {
	return func(request wirecapnp.Request) error {
		in, err := request.NewPublish()
		about(in)
		in.SetEpoch(epoch)
		in.SetAckNone(ackNone)
		return err
	}
}

// Invariants 2 and 4: publishes reach the replica in order and without waiting for each other; each is answered when it is done, in any
// order; its bytes stay as they are until they are released.
func TestPublish(t *testing.T) {
	f := &fake{}
	_, addr := serve(t, f)
	client := dial(t, addr, wirecapnp.Role_gateway)
	var pending []*frame.Pending
	for i := range 3 {
		p, err := client.Start(t.Context(), publishFill(uint64(i), false), oneBatch(t, fmt.Sprint(i), batch.BuildOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	if _, err := client.Call(t.Context(), publishFill(9, true), oneBatch(t, "no ack", batch.BuildOptions{MapVersion: 5})); err != nil {
		t.Fatal(err) // it is answered: the three before it have reached the replica
	}
	f.mu.Lock()
	published := f.mu.published
	f.mu.Unlock()
	for i, p := range published[:3] {
		if !bytes.Equal(p.Msg, oneBatch(t, fmt.Sprint(i), batch.BuildOptions{})) || p.Epoch != partition.Epoch(i) || p.AckNone {
			t.Errorf("place %d has another batch, or epoch %d", i, p.Epoch)
		}
	}
	if !published[3].AckNone {
		t.Error("ackNone got lost")
	}
	for i := 2; i >= 0; i-- {
		want := replica.Published{
			BaseOffset: partition.Offset(10 * i), LastOffset: partition.Offset(10*i + 4), OffsetKnown: true, Duplicate: i == 1, Epoch: 3,
			HighWatermark: 40, LogStart: 1, AppendTime: 12345, Durability: wirecapnp.Durability_fsyncQuorum,
		}
		published[i].Done(want, nil)
		published[i].Release()
		reply, err := pending[i].Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, err := reply.Response.Publish()
		if err != nil {
			t.Fatal(err)
		}
		got := replica.Published{
			BaseOffset: partition.Offset(out.BaseOffset()), LastOffset: partition.Offset(out.LastOffset()), OffsetKnown: out.OffsetKnown(),
			Duplicate: out.Duplicate(), Epoch: partition.Epoch(out.Epoch()), HighWatermark: partition.Offset(out.HighWatermark()),
			LogStart: partition.Offset(out.LogStart()), AppendTime: out.AppendTime(), Durability: out.Durability(),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("publish %d (-want +got):\n%s", i, diff)
		}
		reply.Release()
	}
}

// Errors keep kind, text and details.
func TestErrorsKeepTheirDetails(t *testing.T) {
	f := &fake{err: &fault.Error{Kind: fault.OutOfOrder, Op: "publish", Offset: 17, Epoch: 4, RetryAfter: time.Second}}
	_, addr := serve(t, f)
	client := dial(t, addr, wirecapnp.Role_gateway)
	_, err := client.Call(t.Context(), publishFill(0, false), oneBatch(t, "x", batch.BuildOptions{}))
	if got := wantFault(t, err, fault.OutOfOrder); got.Offset != 17 || got.Epoch != 4 || got.RetryAfter != time.Second || got.Op != "publish" {
		t.Errorf("got %+v", got)
	}
	f.err = errors.New("disk on fire")
	_, err = client.Call(t.Context(), func(request wirecapnp.Request) error {
		in, err := request.NewFetch()
		about(in)
		return err
	})
	if got := wantFault(t, err, fault.Internal); !strings.Contains(got.Op, "fetch from "+known.String()) {
		t.Errorf("got %+v", got)
	}
}

// callsOf makes a good request of every kind that a broker serves, for the known partition.
func callsOf() map[wirecapnp.Request_Which]func(wirecapnp.Request) error {
	return map[wirecapnp.Request_Which]func(wirecapnp.Request) error{
		wirecapnp.Request_Which_publish: publishFill(0, true),
		wirecapnp.Request_Which_fetch: func(r wirecapnp.Request) error {
			in, err := r.NewFetch()
			about(in)
			in.SetOffset(7)
			in.SetEpoch(3)
			in.SetMaxBytes(1 << 30)
			in.SetWaitMillis(1 << 30)
			return err
		},
		wirecapnp.Request_Which_listOffsets: func(r wirecapnp.Request) error {
			in, err := r.NewListOffsets()
			about(in)
			in.SetEpoch(3)
			in.SetTime(-5)
			return err
		},
		wirecapnp.Request_Which_initProducer:   func(r wirecapnp.Request) error { _, err := r.NewInitProducer(); return err },
		wirecapnp.Request_Which_peer:           func(r wirecapnp.Request) error { _, err := r.NewPeer(); return err },
		wirecapnp.Request_Which_positions:      func(r wirecapnp.Request) error { return fillPositions(r, 1) },
		wirecapnp.Request_Which_seal:           func(r wirecapnp.Request) error { in, err := r.NewSeal(); about(in); return err },
		wirecapnp.Request_Which_partitionState: func(r wirecapnp.Request) error { in, err := r.NewPartitionState(); about(in); return err },
		wirecapnp.Request_Which_trim: func(r wirecapnp.Request) error {
			in, err := r.NewTrim()
			about(in)
			in.SetBeforeOffset(11)
			in.SetLocalOnly(true)
			return err
		},
		wirecapnp.Request_Which_harvest: func(r wirecapnp.Request) error {
			in, err := r.NewHarvest()
			in.SetMaxSegments(1 << 30)
			return err
		},
		wirecapnp.Request_Which_readSealed: func(r wirecapnp.Request) error {
			in, err := r.NewReadSealed()
			about(in)
			in.SetBase(5)
			in.SetPosition(6)
			in.SetMaxBytes(1 << 31)
			return err
		},
		wirecapnp.Request_Which_tierTable: func(r wirecapnp.Request) error {
			in, err := r.NewTierTable()
			about(in)
			in.SetSince(12)
			in.SetFrom(13)
			return err
		},
		wirecapnp.Request_Which_commitTier: func(r wirecapnp.Request) error { return fillCommit(r, 1, "key-1") },
		wirecapnp.Request_Which_exported: func(r wirecapnp.Request) error {
			in, err := r.NewExported()
			about(in)
			in.SetEpoch(3)
			in.SetTableVersion(14)
			in.SetTierEnd(15)
			in.SetManifestSequence(16)
			return err
		},
		wirecapnp.Request_Which_collected: func(r wirecapnp.Request) error { return fillCollected(r, 2, "key") },
	}
}

func fillCommit(r wirecapnp.Request, n int32, key string) error {
	in, err := r.NewCommitTier()
	if err != nil {
		return err
	}
	about(in)
	list, err := in.NewSegments(n)
	if err != nil {
		return err
	}
	for i := range list.Len() {
		if err := sealed.FillSegment(list.At(i), segment(key)); err != nil {
			return err
		}
	}
	return nil
}

func segment(key string) sealed.Segment {
	return sealed.Segment{
		Base: 1, End: 5, Epoch: 2, Size: 1000, ObjectSize: 1100, SHA256: sealed.Digest{1, 2, 31: 9}, Key: key, FirstAppendTime: 8, LastAppendTime: 9,
	}
}

func fillCollected(r wirecapnp.Request, n int32, key string) error {
	in, err := r.NewCollected()
	if err != nil {
		return err
	}
	about(in)
	list, err := in.NewKeys(n)
	if err != nil {
		return err
	}
	for i := range list.Len() {
		if err := list.Set(i, key); err != nil {
			return err
		}
	}
	return nil
}

// What a call asks of the replica: every argument arrives, and every size is cut to its limit.
func TestArguments(t *testing.T) {
	f := &fake{}
	_, addr := serve(t, f)
	clients := map[bool]*frame.Client{false: dial(t, addr, wirecapnp.Role_gateway), true: dial(t, addr, wirecapnp.Role_tierer)}
	calls := callsOf()
	for which, want := range map[wirecapnp.Request_Which]any{
		wirecapnp.Request_Which_fetch:          replica.Fetch{Offset: 7, Epoch: 3, MaxBytes: 8 << 20},
		wirecapnp.Request_Which_listOffsets:    replica.ListOffset{Where: replica.AtTime, Time: -5, Epoch: 3},
		wirecapnp.Request_Which_initProducer:   "next id",
		wirecapnp.Request_Which_seal:           "seal",
		wirecapnp.Request_Which_partitionState: "state",
		wirecapnp.Request_Which_trim:           askedTrim{11, true},
		wirecapnp.Request_Which_harvest:        askedHarvest{0, 1024},
		wirecapnp.Request_Which_readSealed:     askedPart{5, 6, 8 << 20},
		wirecapnp.Request_Which_tierTable:      askedTable{12, 13, 1000},
		wirecapnp.Request_Which_commitTier:     []sealed.Segment{segment("key-1")},
		wirecapnp.Request_Which_exported:       sealed.Exported{Epoch: 3, TableVersion: 14, TierEnd: 15, ManifestSequence: 16},
		wirecapnp.Request_Which_collected:      []string{"key", "key"},
	} {
		reply, err := clients[which >= wirecapnp.Request_Which_harvest].Call(t.Context(), calls[which])
		if err != nil {
			t.Errorf("%v: %v", which, err)
			continue
		}
		reply.Release()
		got := f.last()
		if fetch, ok := got.(replica.Fetch); ok { // the wait leaves time for the answer within the server's own default
			if fetch.Wait <= 20*time.Second || fetch.Wait >= 30*time.Second {
				t.Errorf("fetch waits %v", fetch.Wait)
			}
			fetch.Wait = 0
			got = fetch
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", which, diff)
		}
	}
}

// Invariant 3: every call in every role is served or denied as the table says, and a call without a row is refused.
func TestRoles(t *testing.T) {
	_, addr := serve(t, &fake{})
	calls := callsOf()
	calls[wirecapnp.Request_Which_metadata] = func(r wirecapnp.Request) error { _, err := r.NewMetadata(); return err }
	allowed := map[wirecapnp.Role]string{
		wirecapnp.Role_gateway:     "publish fetch listOffsets initProducer seal trim partitionState",
		wirecapnp.Role_tierer:      "partitionState harvest readSealed tierTable commitTier exported collected",
		wirecapnp.Role_coordinator: "partitionState positions",
		wirecapnp.Role_broker:      "peer",
	}
	for role, names := range allowed {
		client := dial(t, addr, role)
		for which, fill := range calls {
			_, err := client.Call(t.Context(), fill, oneBatch(t, "x", batch.BuildOptions{}))
			switch {
			case which == wirecapnp.Request_Which_metadata:
				wantFault(t, err, fault.UnsupportedVersion)
			case strings.Contains(" "+names+" ", " "+which.String()+" "):
				if err != nil {
					t.Errorf("%v may not call %v: %v", role, which, err)
				}
			default:
				if !fault.Is(wantFault(t, err, fault.Denied), fault.Denied) {
					t.Errorf("%v may call %v", role, which)
				}
			}
		}
	}
}

// Clients and members of other clusters learn at Hello that they are wrong here.
func TestHello(t *testing.T) {
	_, addr := serve(t, &fake{})
	_, err := connect(t, addr).Hello(t.Context(), frame.HelloParams{Role: wirecapnp.Role_client})
	if got := wantFault(t, err, fault.Denied); !strings.Contains(got.Op, "connect to a gateway") {
		t.Errorf("told %q", got.Op)
	}
	_, err = connect(t, addr).Hello(t.Context(), frame.HelloParams{Role: wirecapnp.Role_gateway, ClusterID: topic.String()})
	if got := wantFault(t, err, fault.WrongCluster); !strings.Contains(got.Op, cluster.String()) {
		t.Errorf("told %q", got.Op)
	}
	_, err = connect(t, addr).Hello(t.Context(), frame.HelloParams{Role: wirecapnp.Role_broker, ClientID: "2"})
	wantFault(t, err, fault.WrongCluster) // of a broker it must be said
	_, err = connect(t, addr).Hello(t.Context(), frame.HelloParams{Role: wirecapnp.Role_broker, ClusterID: cluster.String(), ClientID: "two"})
	wantFault(t, err, fault.Invalid)
	info, err := connect(t, addr).Hello(t.Context(), frame.HelloParams{Role: wirecapnp.Role_gateway, ClusterID: cluster.String()})
	if err != nil || info.NodeID != 1 || info.ClusterID != cluster.String() {
		t.Errorf("got %+v, %v", info, err)
	}
}

// Requests that are wrong in themselves are refused one by one; the connection goes on (invariant 1).
func TestBadRequests(t *testing.T) {
	f := &fake{}
	_, addr := serve(t, f)
	gateway, tierer := dial(t, addr, wirecapnp.Role_gateway), dial(t, addr, wirecapnp.Role_tierer)
	for name, test := range map[string]struct {
		client *frame.Client
		fill   func(wirecapnp.Request) error
		kind   fault.Kind
	}{
		"publish without a body": {gateway, publishFill(0, false), fault.Invalid},
		"no topic":               {gateway, func(r wirecapnp.Request) error { _, err := r.NewFetch(); return err }, fault.Invalid},
		"no content": {gateway, func(r wirecapnp.Request) error {
			return r.SetSeal(wirecapnp.SealRequest{})
		}, fault.Invalid},
		"a partition of others": {gateway, func(r wirecapnp.Request) error {
			in, err := r.NewFetch()
			about(in)
			in.SetPartition(99)
			return err
		}, fault.NotLeader},
		"no segment":           {tierer, func(r wirecapnp.Request) error { return fillCommit(r, 0, "k") }, fault.Invalid},
		"too many segments":    {tierer, func(r wirecapnp.Request) error { return fillCommit(r, 1025, "k") }, fault.Invalid},
		"segment without key":  {tierer, func(r wirecapnp.Request) error { return fillCommit(r, 1, "") }, fault.Invalid},
		"segment with a novel": {tierer, func(r wirecapnp.Request) error { return fillCommit(r, 1, strings.Repeat("k", 1025)) }, fault.Invalid},
		"too many positions":   {dial(t, addr, wirecapnp.Role_coordinator), func(r wirecapnp.Request) error { return fillPositions(r, 8193) }, fault.TooLarge},
		"no key":               {tierer, func(r wirecapnp.Request) error { return fillCollected(r, 0, "k") }, fault.Invalid},
		"too many keys":        {tierer, func(r wirecapnp.Request) error { return fillCollected(r, 1025, "k") }, fault.Invalid},
		"empty key":            {tierer, func(r wirecapnp.Request) error { return fillCollected(r, 1, "") }, fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.client.Call(t.Context(), test.fill)
			wantFault(t, err, test.kind)
			if f.last() != nil {
				t.Errorf("the replica was asked %v", f.last())
			}
		})
	}
}

// Invariant 1 for batches: what is wrong with one is told, and the replica does not see it.
func TestBadBatches(t *testing.T) {
	good := oneBatch(t, "value", batch.BuildOptions{})
	flip := func(at int) []byte {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		return bad
	}
	stamped := bytes.Clone(good)
	batch.Stamp(stamped, batch.Stamps{Epoch: 1})
	control, err := batch.BuildControl(nil, func(c batchcapnp.Control) error { _, err := c.NewTrimTo(); return err })
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	_, addr := serve(t, f)
	client := dial(t, addr, wirecapnp.Role_gateway)
	for name, test := range map[string]struct {
		body []byte
		kind fault.Kind
	}{
		"garbage":             {[]byte("this is not a batch, but long enough to be one"), fault.Invalid},
		"cut short":           {good[:len(good)-8], fault.Invalid},
		"two batches":         {append(bytes.Clone(good), good...), fault.Invalid},
		"trailing bytes":      {append(bytes.Clone(good), 0, 0, 0, 0, 0, 0, 0, 0), fault.Invalid},
		"magic":               {flip(16), fault.Invalid},
		"header damaged":      {flip(100), fault.Corrupt},
		"body damaged":        {flip(len(good) - 1), fault.Corrupt},
		"stamped":             {stamped, fault.Invalid},
		"control":             {control, fault.Invalid},
		"larger than allowed": {oneBatch(t, strings.Repeat("v", 2000), batch.BuildOptions{}), fault.TooLarge},
		"old map version":     {oneBatch(t, "v", batch.BuildOptions{MapVersion: 4}), fault.StaleRouting},
		"newer map version":   {oneBatch(t, "v", batch.BuildOptions{MapVersion: 6}), fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Call(t.Context(), publishFill(0, false), test.body)
			wantFault(t, err, test.kind)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.mu.published) != 0 {
				t.Error("the replica saw it")
			}
		})
	}
}

// A call that makes its handler panic is answered and costs its connection; others go on.
func TestPanic(t *testing.T) {
	f := &fake{panics: true}
	_, addr := serve(t, f)
	bad, good := dial(t, addr, wirecapnp.Role_gateway), dial(t, addr, wirecapnp.Role_gateway)
	calls := callsOf()
	_, err := bad.Call(t.Context(), calls[wirecapnp.Request_Which_seal])
	wantFault(t, err, fault.Internal)
	<-bad.Done()
	if _, err := good.Call(t.Context(), calls[wirecapnp.Request_Which_partitionState]); err != nil {
		t.Errorf("the other connection: %v", err)
	}
}

// What a tierer is told.
func TestTierAnswers(t *testing.T) {
	f := &fake{
		harvests: []sealed.Harvest{{
			Partition: known, Epoch: 3, TierEnd: 5, ExportedEnd: 4, ExportedVersion: 6, TableVersion: 7, Collectable: []string{"old-1", "old-2"},
			Sealed: []sealed.Untiered{{
				Seal: sealed.Seal{Base: 5, End: 9, Size: 100, SHA256: sealed.Digest{7}}, Epoch: 2, FirstAppendTime: 11, LastAppendTime: 12,
			}},
		}},
		table: sealed.Excerpt{Epoch: 3, Version: 7, TierEnd: 5, LogStart: 1, Segments: []sealed.Segment{segment("a"), segment("b")}, More: true},
	}
	_, addr := serve(t, f)
	client := dial(t, addr, wirecapnp.Role_tierer)
	calls := callsOf()
	reply, err := client.Call(t.Context(), calls[wirecapnp.Request_Which_harvest])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.harvests, readHarvests(t, reply.Response)); diff != "" {
		t.Errorf("harvest (-want +got):\n%s", diff)
	}
	reply, err = client.Call(t.Context(), calls[wirecapnp.Request_Which_tierTable])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.table, readTable(t, reply.Response)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func readHarvests(t *testing.T, response wirecapnp.Response) []sealed.Harvest {
	t.Helper()
	reply, err := response.Harvest()
	if err != nil {
		t.Fatal(err)
	}
	list, err := reply.Partitions()
	if err != nil {
		t.Fatal(err)
	}
	var all []sealed.Harvest
	for i := range list.Len() {
		in := list.At(i)
		id, _ := in.Topic()
		h := sealed.Harvest{
			Partition: partition.ID{Topic: partition.UUIDOf(id.Hi(), id.Lo()), Index: partition.Index(in.Partition())},
			Epoch:     partition.Epoch(in.Epoch()), TierEnd: partition.Offset(in.TierEnd()), ExportedEnd: partition.Offset(in.ExportedEnd()),
			ExportedVersion: in.ExportedVersion(), TableVersion: in.TableVersion(),
		}
		segments, _ := in.Sealed()
		for j := range segments.Len() {
			s := segments.At(j)
			sum, _ := s.Sha256()
			h.Sealed = append(h.Sealed, sealed.Untiered{
				Seal:  sealed.Seal{Base: partition.Offset(s.Base()), End: partition.Offset(s.End()), Size: s.Size(), SHA256: sealed.Digest(sum)},
				Epoch: partition.Epoch(s.Epoch()), FirstAppendTime: s.FirstAppendTime(), LastAppendTime: s.LastAppendTime(),
			})
		}
		keys, _ := in.Collectable()
		for j := range keys.Len() {
			key, _ := keys.At(j)
			h.Collectable = append(h.Collectable, key)
		}
		all = append(all, h)
	}
	return all
}

func readTable(t *testing.T, response wirecapnp.Response) sealed.Excerpt {
	t.Helper()
	in, err := response.TierTable()
	if err != nil {
		t.Fatal(err)
	}
	table := sealed.Excerpt{
		Epoch: partition.Epoch(in.Epoch()), Version: in.TableVersion(), TierEnd: partition.Offset(in.TierEnd()),
		LogStart: partition.Offset(in.LogStart()), More: in.More(),
	}
	list, err := in.Segments()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Len() {
		s, err := sealed.ReadSegment(list.At(i))
		if err != nil {
			t.Fatal(err)
		}
		table.Segments = append(table.Segments, s)
	}
	return table
}

// Who waits for records or for work does not hold up a stop: the partitions have no leader until the broker has ended.
func TestShutdownEndsWhatWaits(t *testing.T) {
	f := &fake{waits: true}
	server, addr := serve(t, f)
	const long = 60_000
	fetch, err := dial(t, addr, wirecapnp.Role_gateway).Start(t.Context(), func(r wirecapnp.Request) error {
		in, err := r.NewFetch()
		about(in)
		in.SetWaitMillis(long)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	harvest, err := dial(t, addr, wirecapnp.Role_tierer).Start(t.Context(), func(r wirecapnp.Request) error {
		in, err := r.NewHarvest()
		in.SetWaitMillis(long)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for f.count() < 2 {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(context.Background()) }()
	for _, pending := range []*frame.Pending{fetch, harvest} {
		if _, err := pending.Wait(t.Context()); !fault.Is(faultwire.FromCall(err), fault.Unavailable) {
			t.Errorf("answer: %v", err)
		}
	}
	if err := <-stopped; err != nil || time.Since(start) > long/2*time.Millisecond {
		t.Errorf("shutdown: %v after %v", err, time.Since(start))
	}
}
