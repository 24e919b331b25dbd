package backoff

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// Policy shapes the waits.
type Policy struct {
	// Initial is the first wait before jitter; Max bounds all. Both are positive.
	Initial, Max time.Duration
	// Factor is what each wait is longer than the last by, at least 1; 0 = 2.
	Factor float64
	// Jitter is the part of a wait that is random, in [0, 1]; 0 = none.
	Jitter float64
}

// Backoff is one sequence of attempts.
type Backoff struct {
	policy Policy
	clock  clock.Clock
	random io.Reader
	next   float64 // ns, before jitter
}

// New starts a sequence. random is read 8 bytes at a time; it may be nil where Jitter is 0. A policy outside its bounds is a programmer's
// error and panics.
func New(c clock.Clock, random io.Reader, p Policy) *Backoff {
	if p.Factor == 0 {
		p.Factor = 2
	}
	if p.Initial <= 0 || p.Max < p.Initial || p.Factor < 1 || p.Jitter < 0 || p.Jitter > 1 || (p.Jitter > 0 && random == nil) {
		panic(fmt.Sprintf("backoff: bad policy %+v", p))
	}
	return &Backoff{policy: p, clock: c, random: random, next: float64(p.Initial)}
}

// Next draws the next wait.
func (b *Backoff) Next() time.Duration {
	d := min(b.next, float64(b.policy.Max))
	b.next = min(d*b.policy.Factor, float64(b.policy.Max))
	return time.Duration(d * (1 - b.policy.Jitter*b.fraction()))
}

// fraction is in [0, 1). Without randomness to be had, 0: the longest wait.
func (b *Backoff) fraction() float64 {
	if b.policy.Jitter == 0 {
		return 0
	}
	var raw [8]byte
	if _, err := io.ReadFull(b.random, raw[:]); err != nil {
		return 0
	}
	return float64(binary.LittleEndian.Uint64(raw[:])>>11) / (1 << 53)
}

// Reset makes the next wait the first again: after a success.
func (b *Backoff) Reset() { b.next = float64(b.policy.Initial) }

// Wait sleeps for the next wait, or until ctx ends, whose error it then gives.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.clock, b.Next()) }

// Sleep waits for d, or until ctx ends, whose error it then gives.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
