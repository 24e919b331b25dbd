package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
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
