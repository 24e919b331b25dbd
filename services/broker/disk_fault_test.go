package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
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
	"github.com/seedqueue/sq/services/broker"
)

// housework publishes, seals and trims, whatever fails, and gives what was acknowledged and the kinds of the failures.
func housework(ctx context.Context, client *frame.Client, s *session) (acked []string, kinds []fault.Kind) {
	note := func(err error) {
		if err != nil {
			kinds = append(kinds, fault.KindOf(err))
		}
	}
	send := func(value string) {
		_, err := publish(ctx, client, s.next(value))
		if err == nil {
			acked = append(acked, value)
		} else if !fault.Is(err, fault.OutcomeUnknown) {
			s.sequence-- // certainly not appended: it is the next one's
		}
		note(err)
	}
	ask := func(fill func(wirecapnp.Request) error) {
		reply, err := client.Call(ctx, fill)
		if err == nil {
			reply.Release()
		}
		if err != nil {
			err = faultwire.FromCall(err)
		}
		note(err)
	}
	for i := range 3 {
		send(fmt.Sprintf("early %d", i))
	}
	ask(func(r wirecapnp.Request) error {
		in, err := r.NewSeal()
		return errors.Join(err, about(in, orders))
	})
	send("between")
	ask(func(r wirecapnp.Request) error {
		in, err := r.NewTrim()
		in.SetBeforeOffset(2) // the epoch's start and the first record
		return errors.Join(err, about(in, orders))
	})
	for i := range 3 {
		send(fmt.Sprintf("late %d", i))
	}
	return acked, kinds
}

// Every operation on the log and the journal fails once, or from there on for a while, in each of the ways a disk fails: nothing that was
// acknowledged is lost, a full disk ends nothing that a sync has not put in doubt, and what failed is told by its kind.
func TestDiskFailsAtEveryOperation(t *testing.T) {
	const changes = faultfs.Open | faultfs.Write | faultfs.Allocate | faultfs.Mkdir
	for name, rule := range map[string]faultfs.Rule{
		"EIO":                  {Err: syscall.EIO, Count: 1},
		"EIO of reads":         {Ops: faultfs.Read, Err: syscall.EIO, Count: 1},
		"short write":          {Ops: faultfs.Write, Err: syscall.EIO, Short: 100, Count: 1},
		"ENOSPC":               {Ops: changes, Err: syscall.ENOSPC, Count: 1},
		"ENOSPC after a piece": {Ops: faultfs.Write, Err: syscall.ENOSPC, Short: 100, Count: 1},
		"ENOSPC for a while":   {Ops: faultfs.Write | faultfs.Allocate, Err: syscall.ENOSPC},
	} {
		for _, path := range []string{"replicas/*/log/*", "journal/*"} {
			t.Run(name+" of "+path, func(t *testing.T) {
				for first := 1; ; first++ {
					hits := 0
					rule.Path, rule.First = path, first
					synctest.Test(t, func(t *testing.T) { hits = failOnce(t, rule) })
					if hits == 0 || t.Failed() {
						t.Logf("%d operations", first-1)
						break
					}
				}
			})
		}
	}
}

// failOnce runs the housework with one fault and checks what is left.
func failOnce(t *testing.T, rule faultfs.Rule) (hits int) {
	w := newWorld(t)
	w.log = io.Discard
	memory := memfs.New()
	disk := faultfs.New(memory, clock.Real())
	n := w.start(t, disk)
	w.create(t, nil)
	n.ready()
	s := &session{t: t, producer: 7}
	full := errors.Is(rule.Err, syscall.ENOSPC)
	active := disk.Add(rule)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	acked, kinds := housework(ctx, n.client(wirecapnp.Role_gateway), s)
	time.Sleep(5 * time.Second) // marks, retention
	hits = active.Hits()
	active.Remove()
	for _, kind := range kinds {
		switch kind {
		case fault.DiskFull, fault.OutcomeUnknown, fault.DiskPoisoned, fault.Unavailable, fault.NotLeader, fault.DeadlineExceeded, fault.Corrupt, fault.OffsetOutOfRange:
		default:
			t.Errorf("%+v: answered %v", rule, kind)
		}
		if full && kind != fault.DiskFull && kind != fault.OutcomeUnknown && kind != fault.DeadlineExceeded && kind != fault.OffsetOutOfRange {
			t.Errorf("%+v: a full disk was answered by %v", rule, kind)
		}
	}
	select {
	case err := <-n.ended:
		n.ended <- err
		if full || !fault.Is(err, fault.DiskPoisoned) {
			t.Errorf("%+v: ended: %v", rule, err)
		}
		n = w.start(t, memory.CrashNone())
		w.nominate(t, 2)
	default:
	}
	n.ready()
	client := n.client(wirecapnp.Role_gateway)
	if _, err := publish(t.Context(), client, (&session{t: t, producer: 8}).next("afterwards")); err != nil {
		t.Errorf("%+v: publish afterwards: %v", rule, err)
	}
	got := readFrom(t, client)
	at := 0
	acked = append(acked, "afterwards")
	for _, value := range acked {
		i := slices.Index(got[at:], value)
		if i < 0 && value == acked[0] {
			continue // trimmed
		}
		if i < 0 {
			t.Errorf("%+v: acknowledged %q, read %q", rule, acked, got)
			break
		}
		at += i + 1
	}
	return hits
}

// readFrom reads all from the log start on.
func readFrom(t *testing.T, client *frame.Client) []string {
	t.Helper()
	first, err := fetch(t.Context(), client, 0, 0)
	start := uint64(0)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.OffsetTrimmed {
		start = f.Offset
	} else if err != nil && !strings.Contains(err.Error(), "trimmed") {
		t.Fatalf("fetch: %v, %v", first, err)
	}
	var values []string
	for offset := start; ; {
		got, err := fetch(t.Context(), client, partition.Offset(offset), 0)
		if err != nil {
			t.Fatalf("fetch at %d: %v", offset, err)
		}
		values = append(values, got.Values...)
		if got.Next >= got.HighWatermark {
			return values
		}
		offset = uint64(got.Next)
	}
}

// A disk that fails is told to the cluster. It is used again once; the second time within a day retires it, until somebody says otherwise.
func TestFailedDiskIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.log = io.Discard
		memory := memfs.New()
		state := func() (string, int) {
			kv, _, _, err := w.store.Get(t.Context(), topology.BrokerIdentKey(1))
			if err != nil {
				t.Fatal(err)
			}
			ident, err := topology.Decode[topology.BrokerIdent](kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			return ident.Disks[0].State, len(ident.Disks[0].Failures)
		}
		created := false
		fail := func(cfg broker.Config) {
			disk := faultfs.New(memory, clock.Real())
			n := w.startWith(t, cfg, w.deps(disk))
			if !created {
				created = true
				w.create(t, nil)
			} else {
				w.nominate(t, 2)
			}
			n.ready()
			disk.Add(faultfs.Rule{Ops: faultfs.Sync, Err: syscall.EIO})
			_, _ = publish(t.Context(), n.client(wirecapnp.Role_gateway), (&session{t: t, producer: 7}).next("lost")) // the disk fails
			err := <-n.ended
			n.ended <- err
			if !fault.Is(err, fault.DiskPoisoned) {
				t.Fatalf("ended: %v", err)
			}
			if _, ok, _, err := w.store.Get(t.Context(), topology.BrokerLiveKey(1)); ok || err != nil {
				t.Errorf("the broker stays registered: %v, %v", ok, err)
			}
			memory = memory.CrashNone()
		}
		fail(w.config())
		if s, n := state(); s != topology.DiskPoisoned || n != 1 {
			t.Errorf("after a failure: %s, %d failures", s, n)
		}
		time.Sleep(25 * time.Hour)
		fail(w.config())
		if s, n := state(); s != topology.DiskPoisoned || n != 1 {
			t.Errorf("after a failure on another day: %s, %d failures", s, n)
		}
		fail(w.config())
		if s, n := state(); s != topology.DiskRetired || n != 2 {
			t.Errorf("after the second failure within a day: %s, %d failures", s, n)
		}
		n := w.startWith(t, w.config(), w.deps(memory))
		err := <-n.ended
		n.ended <- err
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "use-retired-disk") {
			t.Errorf("start with a retired disk: %v", err)
		}
		cfg := w.config()
		cfg.UseRetiredDisk = true
		n = w.startWith(t, cfg, w.deps(memory))
		w.nominate(t, 4)
		n.ready()
		if s, failures := state(); s != topology.DiskOK || failures != 0 {
			t.Errorf("after it was forgiven: %s, %d failures", s, failures)
		}
	})
}

// The first start fails at every operation, the making of the first replica too, and then power does: the next one finds a directory that it can use.
func TestFirstStartFailsAtEveryOperation(t *testing.T) {
	for first, hits := 1, 1; hits > 0 && !t.Failed(); first++ {
		synctest.Test(t, func(t *testing.T) { hits = failStart(t, first, first%3) })
	}
}

func failStart(t *testing.T, first, survivor int) (hits int) {
	w := newWorld(t)
	w.log = io.Discard
	memory := memfs.New()
	disk := faultfs.New(memory, clock.Real())
	rule := disk.Add(faultfs.Rule{Err: syscall.EIO, First: first, Count: 1})
	created := false
	if b, err := broker.New(t.Context(), w.config(), w.deps(disk)); err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		time.Sleep(2 * time.Second)
		if len(ended) == 0 {
			created = true
			w.create(t, nil)
			time.Sleep(2 * time.Second)
		}
		cut := memory.CrashNone()
		switch survivor {
		case 1:
			cut = memory.CrashAll()
		case 2:
			cut = memory.Crash(rand.New(rand.NewPCG(1, uint64(first))))
		}
		memory = cut
		cancel()
		if err := <-ended; err != nil && !fault.Is(err, fault.DiskPoisoned) && !fault.Is(err, fault.Unavailable) {
			t.Errorf("operation %d: ended: %v", first, err)
		}
	}
	n := w.start(t, memory)
	if created {
		w.nominate(t, 2)
	} else {
		w.create(t, nil)
	}
	n.ready()
	if _, err := publish(t.Context(), n.client(wirecapnp.Role_gateway), (&session{t: t, producer: 7}).next("first")); err != nil {
		t.Errorf("operation %d, survivor %d: %v", first, survivor, err)
	}
	return rule.Hits()
}
