package flakybucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/seedqueue/sq/libs/objstore"
)

// Op names a call; Any is every one.
type Op uint8

// Calls of a bucket.
const (
	Any Op = iota
	Put
	Get
	Head
	Delete
	List
)

// Effect is what happens to a call.
type Effect uint8

// Effects.
const (
	// Fail ends the call with nothing done.
	Fail Effect = iota
	// Ambiguous does the call and then fails it.
	Ambiguous
	// Corrupt flips a bit in the middle of what a Get reads.
	Corrupt
	// Short ends what a Get reads in the middle, with an error.
	Short
	// Hold keeps the call until Release or its context's end, then does it.
	Hold
)

var errInjected = errors.New("fault injected")

// Rule says which calls fail and how.
type Rule struct {
	Op     Op
	Key    string // a part of the key or prefix; "" = every one
	After  int    // so many matching calls pass first
	Times  int    // so many then fail; 0 = all
	Effect Effect
	Err    error // of Fail and Ambiguous; nil = objstore.ErrUnavailable
}

type counted struct {
	Rule

	seen int
}

// Bucket wraps a bucket.
type Bucket struct {
	inside objstore.Bucket
	mu     struct {
		sync.Mutex

		rules []*counted
		calls map[Op]int
		gate  chan struct{} // what Hold waits for
	}
}

var _ objstore.Bucket = (*Bucket)(nil)

// New wraps a bucket, without rules.
func New(inside objstore.Bucket) *Bucket {
	b := &Bucket{inside: inside}
	b.mu.calls = map[Op]int{}
	b.mu.gate = make(chan struct{})
	return b
}

// Set replaces all rules.
func (b *Bucket) Set(rules ...Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.rules = nil
	for _, rule := range rules {
		b.mu.rules = append(b.mu.rules, &counted{Rule: rule})
	}
}

// Release lets all calls go that Hold keeps.
func (b *Bucket) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.mu.gate)
	b.mu.gate = make(chan struct{})
}

// Calls tells how often a call was made, whatever became of it; Any = all of them.
func (b *Bucket) Calls(op Op) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.calls[op]
}

// enter counts a call and finds the rule that strikes it.
func (b *Bucket) enter(ctx context.Context, op Op, key string) *Rule {
	b.mu.Lock()
	b.mu.calls[op]++
	b.mu.calls[Any]++
	rule := b.match(op, key)
	gate := b.mu.gate
	b.mu.Unlock()
	if rule != nil && rule.Effect == Hold {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	return rule
}

func (b *Bucket) match(op Op, key string) *Rule {
	for _, rule := range b.mu.rules {
		if (rule.Op != Any && rule.Op != op) || !strings.Contains(key, rule.Key) {
			continue
		}
		rule.seen++
		if rule.seen > rule.After && (rule.Times == 0 || rule.seen <= rule.After+rule.Times) {
			return &rule.Rule
		}
	}
	return nil
}

// failure is the error of a rule where it ends the call at the moment; nil where not.
func (r *Rule) failure(effect Effect, what string) error {
	if r == nil || r.Effect != effect {
		return nil
	}
	err := r.Err
	if err == nil {
		err = objstore.ErrUnavailable
	}
	return fmt.Errorf("%s: %w: %w", what, err, errInjected)
}

// Put implements objstore.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	rule := b.enter(ctx, Put, key)
	if err := rule.failure(Fail, "put "+key); err != nil {
		return objstore.Info{}, err
	}
	info, err := b.inside.Put(ctx, key, body, size, opts)
	if lost := rule.failure(Ambiguous, "put "+key); lost != nil {
		return objstore.Info{}, lost
	}
	return info, err //nolint:wrapcheck // as the bucket inside says it.
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	rule := b.enter(ctx, Get, key)
	for _, effect := range []Effect{Fail, Ambiguous} {
		if err := rule.failure(effect, "get "+key); err != nil {
			return nil, objstore.Info{}, err
		}
	}
	body, info, err := b.inside.Get(ctx, key, off, n)
	if err != nil || rule == nil || (rule.Effect != Corrupt && rule.Effect != Short) {
		return body, info, err //nolint:wrapcheck // as the bucket inside says it.
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, objstore.Info{}, err
	}
	if rule.Effect == Short {
		cut := errInjected
		return io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), failing{cut})), info, nil
	}
	if len(data) > 0 {
		data[len(data)/2] ^= 1
	}
	return io.NopCloser(bytes.NewReader(data)), info, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	return 0, fmt.Errorf("read body: %w: %w", objstore.ErrUnavailable, f.err)
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	rule := b.enter(ctx, Head, key)
	for _, effect := range []Effect{Fail, Ambiguous} {
		if err := rule.failure(effect, "head "+key); err != nil {
			return objstore.Info{}, err
		}
	}
	return b.inside.Head(ctx, key) //nolint:wrapcheck // as the bucket inside says it.
}

// Delete implements objstore.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	rule := b.enter(ctx, Delete, key)
	if err := rule.failure(Fail, "delete "+key); err != nil {
		return err
	}
	err := b.inside.Delete(ctx, key)
	if lost := rule.failure(Ambiguous, "delete "+key); lost != nil {
		return lost
	}
	return err //nolint:wrapcheck // as the bucket inside says it.
}

// List implements objstore.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	rule := b.enter(ctx, List, prefix)
	for _, effect := range []Effect{Fail, Ambiguous} {
		if err := rule.failure(effect, "list "+prefix); err != nil {
			return nil, err
		}
	}
	return b.inside.List(ctx, prefix, after, limit) //nolint:wrapcheck // as the bucket inside says it.
}
