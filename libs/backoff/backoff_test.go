package backoff_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
)

func TestNextGrowsToMax(t *testing.T) {
	b := backoff.New(clock.NewManual(time.Time{}), nil, backoff.Policy{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond})
	var got []time.Duration
	for range 5 {
		got = append(got, b.Next())
	}
	b.Reset()
	got = append(got, b.Next())
	ms := time.Millisecond
	if diff := cmp.Diff([]time.Duration{10 * ms, 20 * ms, 40 * ms, 50 * ms, 50 * ms, 10 * ms}, got); diff != "" {
		t.Error(diff)
	}
}

func TestJitterShortensOnly(t *testing.T) {
	policy := backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	for _, c := range []struct {
		random []byte
		want   time.Duration
	}{
		{make([]byte, 8), 100 * time.Millisecond},
		{[]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 75 * time.Millisecond},
		{bytes.Repeat([]byte{0xff}, 8), 50 * time.Millisecond},
		{nil, 100 * time.Millisecond}, // randomness ran out
	} {
		got := backoff.New(clock.Real(), bytes.NewReader(c.random), policy).Next().Round(time.Microsecond)
		if got != c.want {
			t.Errorf("random %x: %v, want %v", c.random, got, c.want)
		}
	}
}

func TestWait(t *testing.T) {
	m := clock.NewManual(time.Time{})
	b := backoff.New(m, nil, backoff.Policy{Initial: time.Second, Max: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Wait(ctx) }()
	if err := m.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	m.Advance(time.Second)
	if err := <-done; err != nil {
		t.Errorf("wait: %v", err)
	}
	go func() { done <- b.Wait(ctx) }()
	if err := m.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("wait in an ended context: %v", err)
	}
	if m.Pending() != 0 {
		t.Error("the timer was left behind")
	}
}
