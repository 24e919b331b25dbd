package broker_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// call makes a call of a test's and gives its answer.
func call(t *testing.T, client *frame.Client, fill func(wirecapnp.Request) error) *frame.Reply {
	t.Helper()
	reply, err := client.Call(t.Context(), fill)
	if err != nil {
		t.Fatal(faultwire.FromCall(err))
	}
	t.Cleanup(reply.Release)
	return reply
}

// The way of a segment to the tier as a tierer drives it: sealed, harvested, read, committed, exported, trimmed; then a fetch is sent to
// the tier, and what is behind it is still here.
func TestSegmentToTheTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(t, memfs.New())
		w.create(t, func(topic *topology.Topic) { topic.LocalTime, topic.LocalBytes = topology.Duration(time.Second), 1 })
		n.ready()
		gateway, tierer := n.client(wirecapnp.Role_gateway), n.client(wirecapnp.Role_tierer)
		s := &session{t: t, producer: 7}
		if _, err := publish(t.Context(), gateway, s.next("cold", "colder")); err != nil {
			t.Fatal(err)
		}
		harvested := make(chan *frame.Reply)
		go func() {
			harvested <- call(t, tierer, func(r wirecapnp.Request) error {
				in, err := r.NewHarvest()
				in.SetWaitMillis(20_000)
				return err
			})
		}()
		synctest.Wait()
		sealed := call(t, gateway, func(r wirecapnp.Request) error { in, err := r.NewSeal(); return errors.Join(err, about(in, orders)) })
		if out, _ := sealed.Response.Seal(); !out.Sealed() || out.SealedEnd() != 3 {
			t.Fatalf("sealed %v up to %d, want 3", out.Sealed(), out.SealedEnd())
		}
		if _, err := publish(t.Context(), gateway, s.next("hot")); err != nil {
			t.Fatal(err)
		}
		commitHarvest(t, tierer, <-harvested)

		time.Sleep(5 * time.Second) // retention looks once a second
		_, err := fetch(t.Context(), gateway, 1, 0)
		if f := wantKind(t, err, fault.OffsetTiered); f.Offset != 3 {
			t.Errorf("the local log starts at %d, want 3", f.Offset)
		}
		got, err := fetch(t.Context(), gateway, 3, 0)
		if err != nil || !slices.Equal(got.Values, []string{"hot"}) {
			t.Errorf("behind the tier: %+v, %v", got, err)
		}
	})
}

// commitHarvest does a tierer's work for the one segment of a harvest.
func commitHarvest(t *testing.T, tierer *frame.Client, reply *frame.Reply) {
	t.Helper()
	harvest, err := reply.Response.Harvest()
	if err != nil {
		t.Fatal(err)
	}
	partitions, _ := harvest.Partitions()
	if partitions.Len() != 1 {
		t.Fatalf("%d partitions to harvest", partitions.Len())
	}
	work := partitions.At(0)
	segments, _ := work.Sealed()
	if segments.Len() != 1 {
		t.Fatalf("%d segments to harvest", segments.Len())
	}
	segment := segments.At(0)
	want, _ := segment.Sha256()
	part := call(t, tierer, func(r wirecapnp.Request) error {
		in, err := r.NewReadSealed()
		in.SetBase(segment.Base())
		return errors.Join(err, about(in, orders))
	})
	out, _ := part.Response.ReadSealed()
	index, _ := out.Index()
	snapshot, _ := out.Snapshot()
	if sum := sha256.Sum256(part.Body); !slices.Equal(sum[:], want) || out.Size() != segment.Size() || len(index) == 0 || len(snapshot) == 0 {
		t.Errorf("read %d bytes of %d with an index of %d and a snapshot of %d, or another digest", len(part.Body), out.Size(), len(index), len(snapshot))
	}
	committed := call(t, tierer, func(r wirecapnp.Request) error {
		in, err := r.NewCommitTier()
		if err != nil {
			return err
		}
		list, err := in.NewSegments(1)
		if err != nil {
			return err
		}
		to := list.At(0)
		to.SetBase(segment.Base())
		to.SetEnd(segment.End())
		to.SetEpoch(segment.Epoch())
		to.SetSize(segment.Size())
		to.SetObjectSize(segment.Size() + 100)
		to.SetFirstAppendTime(segment.FirstAppendTime())
		to.SetLastAppendTime(segment.LastAppendTime())
		return errors.Join(to.SetKey("c/one"), to.SetSha256(want), about(in, orders))
	})
	tier, _ := committed.Response.CommitTier()
	if tier.TierEnd() != segment.End() {
		t.Fatalf("tiered up to %d, want %d", tier.TierEnd(), segment.End())
	}
	table := call(t, tierer, func(r wirecapnp.Request) error {
		in, err := r.NewTierTable()
		return errors.Join(err, about(in, orders))
	})
	listed, _ := table.Response.TierTable()
	entries, _ := listed.Segments()
	if entries.Len() != 1 || listed.TableVersion() != tier.TableVersion() {
		t.Fatalf("the table has %d segments at version %d, want one at %d", entries.Len(), listed.TableVersion(), tier.TableVersion())
	}
	call(t, tierer, func(r wirecapnp.Request) error {
		in, err := r.NewExported()
		in.SetEpoch(work.Epoch())
		in.SetTableVersion(tier.TableVersion())
		in.SetTierEnd(tier.TierEnd())
		return errors.Join(err, about(in, orders))
	})
}

// Where a log is by time, and where it starts after a trim.
func TestListOffsetsAndTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(t, memfs.New())
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		var times []int64
		for range 3 {
			time.Sleep(time.Minute)
			times = append(times, time.Now().UnixMicro())
			if _, err := publish(t.Context(), client, s.next("x", "y")); err != nil {
				t.Fatal(err)
			}
		}
		list := func(set func(wirecapnp.ListOffsetsRequest)) partition.Offset {
			reply := call(t, client, func(r wirecapnp.Request) error {
				in, err := r.NewListOffsets()
				set(in)
				return errors.Join(err, about(in, orders))
			})
			out, _ := reply.Response.ListOffsets()
			return partition.Offset(out.Offset())
		}
		earliest := func(in wirecapnp.ListOffsetsRequest) { in.SetEarliest() }
		at := func(micros int64) func(wirecapnp.ListOffsetsRequest) {
			return func(in wirecapnp.ListOffsetsRequest) { in.SetTime(micros) }
		}
		for name, test := range map[string]struct {
			set  func(wirecapnp.ListOffsetsRequest)
			want partition.Offset
		}{
			"earliest": {earliest, 0}, "latest": {func(in wirecapnp.ListOffsetsRequest) { in.SetLatest() }, 7},
			"the first": {at(times[0]), 1}, "just behind it": {at(times[0] + 1), 3}, "the last": {at(times[2]), 5}, "later": {at(times[2] + 1), 7},
		} {
			if got := list(test.set); got != test.want {
				t.Errorf("%s is %d, want %d", name, got, test.want)
			}
		}
		reply := call(t, client, func(r wirecapnp.Request) error {
			in, err := r.NewTrim()
			in.SetBeforeOffset(3)
			return errors.Join(err, about(in, orders))
		})
		if out, _ := reply.Response.Trim(); out.LogStart() != 3 {
			t.Errorf("trimmed to %d, want 3", out.LogStart())
		}
		_, err := fetch(t.Context(), client, 1, 0)
		if f := wantKind(t, err, fault.OffsetTrimmed); f.Offset != 3 {
			t.Errorf("told the start %d, want 3", f.Offset)
		}
		if got := list(earliest); got != 3 {
			t.Errorf("earliest is %d after the trim, want 3", got)
		}
	})
}

// A disk whose sync fails: the publish under way is of unknown outcome, the broker ends and says why (doc.go 3); the next life has what was
// acknowledged before.
func TestDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		memory := memfs.New()
		disk := faultfs.New(memory, clock.Real())
		n := w.start(t, disk)
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		if _, err := publish(t.Context(), client, s.next("acknowledged")); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = fetch(t.Context(), client, 2, time.Minute) }() // which a drain would wait for
		synctest.Wait()
		failed := time.Now()
		disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Err: errors.New("input/output error")})
		_, err := publish(t.Context(), client, s.next("lost?"))
		wantKind(t, err, fault.OutcomeUnknown)
		err = n.wait()
		if wantKind(t, err, fault.DiskPoisoned); !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("run says %v", err)
		}
		if took := time.Since(failed); took > time.Second {
			t.Errorf("ended after %v, want at once", took)
		}
		again := w.start(t, memory.CrashNone())
		w.nominate(t, 2)
		again.ready()
		client = again.client(wirecapnp.Role_gateway)
		if got := readAll(t, client); len(got) == 0 || got[0] != "acknowledged" {
			t.Errorf("read %q", got)
		}
		if _, err := publish(t.Context(), client, s.sent[1]); err != nil {
			t.Errorf("the batch of unknown outcome, sent again: %v", err)
		}
		if got := readAll(t, client); !slices.Equal(got, []string{"acknowledged", "lost?"}) {
			t.Errorf("read %q", got)
		}
	})
}
