package broker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker"
	"github.com/seedqueue/sq/services/broker/datadir"
)

// A bit of a sealed segment flips under a running broker: the scrubber says so once, the range is not served until it is good again, and the broker stays ready.
func TestScrub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log bytes.Buffer // read when the broker has ended
		w.log = &log
		disk := memfs.New()
		deps := w.deps(disk)
		cfg := w.config()
		cfg.ScrubInterval = 5 * time.Second
		n := w.startWith(t, cfg, deps)
		w.create(t, nil)
		n.ready()
		client := n.client(wirecapnp.Role_gateway)
		s := &session{t: t, producer: 7}
		if _, err := publish(t.Context(), client, s.next("one", "two")); err != nil {
			t.Fatal(err)
		}
		call(t, client, func(r wirecapnp.Request) error { in, err := r.NewSeal(); return errors.Join(err, about(in, orders)) })
		time.Sleep(11 * time.Second)
		if report, err := datadir.Verify(t.Context(), disk, ".", datadir.Options{Active: true}); err != nil || !report.Clean() || report.Seals == 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if err := testutil.GatherAndCompare(deps.Metrics, strings.NewReader(`
# HELP sq_broker_scrub_faults_total Sealed segments that were found damaged when they were read again.
# TYPE sq_broker_scrub_faults_total counter
sq_broker_scrub_faults_total 0
`), "sq_broker_scrub_faults_total"); err != nil {
			t.Error(err)
		}
		name := "replicas/" + replicaID.String() + "/log/00000000000000000000.log"
		flip(t, disk, name, 300)
		time.Sleep(21 * time.Second)
		if err := testutil.GatherAndCompare(deps.Metrics, strings.NewReader(`
# HELP sq_broker_scrub_faults_total Sealed segments that were found damaged when they were read again.
# TYPE sq_broker_scrub_faults_total counter
sq_broker_scrub_faults_total 1
`), "sq_broker_scrub_faults_total"); err != nil {
			t.Error(err)
		}
		if err := n.Ready(); err != nil {
			t.Errorf("the broker is not ready: %v", err)
		}
		if report, err := datadir.Verify(t.Context(), disk, ".", datadir.Options{Active: true}); err != nil || report.Clean() {
			t.Errorf("%+v, %v", report, err)
		}
		_, err := fetch(t.Context(), client, 0, 0)
		if f := wantKind(t, err, fault.Corrupt); f.Offset != 1 || !strings.Contains(f.Error(), name) {
			t.Errorf("a fetch of what is damaged: %v, behind it %d", err, f.Offset)
		}
		if got, err := fetch(t.Context(), client, 1, 0); err != nil || len(got.Values) != 2 {
			t.Errorf("a fetch behind what is damaged: %+v, %v", got, err)
		}
		flip(t, disk, name, 300) // as a repair would
		time.Sleep(11 * time.Second)
		if _, err := fetch(t.Context(), client, 0, 0); err != nil {
			t.Errorf("a fetch of what is good again: %v", err)
		}
		if err := n.end(); err != nil {
			t.Error(err)
		}
		if told := log.String(); strings.Count(told, "level=ERROR") != 1 || !strings.Contains(told, name) {
			t.Errorf("told: %s", told)
		}
	})
}

func flip(t *testing.T, disk vfs.FS, name string, at int64) {
	t.Helper()
	file, err := disk.Open(name, vfs.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := make([]byte, 1)
	if _, err := file.ReadAt(p, at); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{p[0] ^ 1}, at); err != nil {
		t.Fatal(err)
	}
}

// startWith is start with settings and dependencies of the test's own.
func (w *world) startWith(t *testing.T, cfg broker.Config, deps broker.Deps) *running {
	t.Helper()
	b, err := broker.New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &running{Broker: b, t: t, world: w, stop: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-n.ended
	})
	return n
}
