package probe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/services/tierer/internal/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faulty is a store with one fault.
type faulty struct {
	objstore.Bucket

	put  func(key string, opts *objstore.PutOptions)
	get  func(off, n *int64)
	list func() bool // true = hides what is there
}

func (f faulty) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	if f.put != nil {
		f.put(key, &opts)
	}
	return f.Bucket.Put(ctx, key, body, size, opts)
}

func (f faulty) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	if f.get != nil {
		f.get(&off, &n)
	}
	return f.Bucket.Get(ctx, key, off, n)
}

func (f faulty) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	if f.list != nil && f.list() {
		return nil, nil
	}
	return f.Bucket.List(ctx, prefix, after, limit)
}

func TestProbeFindsWhatAStoreCannotDo(t *testing.T) {
	for name, c := range map[string]struct {
		fault faulty
		want  string
	}{
		"fit":                {faulty{}, ""},
		"ignores conditions": {faulty{put: func(_ string, o *objstore.PutOptions) { o.IfAbsent = false }}, "a second conditional PUT"},
		"loses races":        {faulty{put: func(key string, o *objstore.PutOptions) { o.IfAbsent = !strings.HasSuffix(key, "raced") }}, "16 of 16 racing"},
		"ignores ranges":     {faulty{get: func(off, n *int64) { *off, *n = 0, -1 }}, "reading [3, +4)"},
		"lists too late":     {faulty{list: func() bool { return true }}, "listing what was just written gives 0"},
	} {
		inside := membucket.New(clock.Real())
		c.fault.Bucket = inside
		err := probe.Probe(t.Context(), c.fault, "probe/")
		if (err == nil) != (c.want == "") || (err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, probe.ErrUnfit))) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if left, _ := inside.List(t.Context(), "", "", 10); len(left) != 0 {
			t.Errorf("%s: it left %d objects", name, len(left))
		}
	}
}

func TestMonitor(t *testing.T) {
	bucket := flakybucket.New(membucket.New(clock.Real()))
	var prepared atomic.Int32
	m := probe.NewMonitor(probe.Config{
		Bucket: bucket, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Prefix: func() string { return "probe/" },
		Prepare: func(context.Context) error { prepared.Add(1); return nil },
	})
	if m.Ready() == nil {
		t.Error("ready before the probe")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	wait := func(ready bool) {
		t.Helper()
		for (m.Ready() == nil) != ready {
			runtime.Gosched()
		}
	}
	wait(true)
	if prepared.Load() == 0 {
		t.Error("the bucket was not prepared")
	}
	put := func(ctx context.Context, key string) error {
		_, err := m.Put(ctx, key, bytes.NewReader(nil), 0, objstore.PutOptions{IfAbsent: true})
		return err
	}
	if err := put(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	gone, end := context.WithCancel(ctx)
	end()
	for name, err := range map[string]error{"taken": put(ctx, "a"), "canceled": put(gone, "b")} {
		if err == nil || m.Ready() != nil {
			t.Errorf("%s: %v makes it %v", name, err, m.Ready())
		}
	}
	bucket.Set(flakybucket.Rule{Effect: flakybucket.Fail, Err: objstore.ErrDenied})
	if err := put(ctx, "c"); !errors.Is(err, objstore.ErrDenied) {
		t.Fatal(err)
	}
	if err := m.Ready(); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("after a failure it is %v", err)
	}
	bucket.Set()
	wait(true) // by itself
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
