package blockcache

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// Config of a Cache.
type Config[K comparable, V any] struct {
	Bytes int64 // kept
	Loads int   // at a time
	Load  func(ctx context.Context, key K) (V, error)
	// Weigh tells what a value takes in bytes.
	Weigh func(V) int64
	// Timeout bounds a load.
	Timeout time.Duration
}

// Cache keeps values by key, the most recently used ones.
type Cache[K comparable, V any] struct {
	cfg    Config[K, V]
	stop   context.CancelFunc
	life   context.Context //nolint:containedctx // the cache's own life, in which loads run.
	tokens chan struct{}
	loads  sync.WaitGroup
	mu     struct {
		sync.Mutex

		entries map[K]*list.Element // of *entry[K, V]
		recent  list.List           // most recently used first
		bytes   int64
		flights map[K]*flight[V]
		stats   Stats
		closed  bool
	}
}

// Stats counts since start; Bytes and Entries are of now.
type Stats struct {
	Hits, Misses, Loads, Failures uint64
	Bytes                         int64
	Entries                       int
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int64
}

type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// ErrClosed is what a Get after Close ends with.
var ErrClosed = errors.New("cache is closed")

// New makes an empty cache. The caller closes it.
func New[K comparable, V any](cfg Config[K, V]) *Cache[K, V] {
	c := &Cache[K, V]{cfg: cfg, tokens: make(chan struct{}, cfg.Loads)}
	c.life, c.stop = context.WithCancel(context.Background())
	c.mu.entries = map[K]*list.Element{}
	c.mu.flights = map[K]*flight[V]{}
	return c
}

// Get gives the value of a key, loaded where it is missing.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	value, f, err := c.find(key, true)
	if f == nil {
		return value, err
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// Prefetch begins to load a key that is missing, if a load is free, and does not wait for it.
func (c *Cache[K, V]) Prefetch(key K) {
	if len(c.tokens) < cap(c.tokens) {
		_, _, _ = c.find(key, false)
	}
}

// Drop forgets a key: its value turned out to be of no use.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.mu.entries[key]; ok {
		c.remove(at)
	}
}

// Stats tells the counts.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.mu.stats
	stats.Bytes, stats.Entries = c.mu.bytes, len(c.mu.entries)
	return stats
}

// Close ends the loads and waits for them.
func (c *Cache[K, V]) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.stop()
	c.loads.Wait()
}

// find gives the value, or the load under way, begun here where none was.
func (c *Cache[K, V]) find(key K, counted bool) (value V, f *flight[V], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.mu.entries[key]; ok {
		c.mu.recent.MoveToFront(at)
		if counted {
			c.mu.stats.Hits++
		}
		return at.Value.(*entry[K, V]).value, nil, nil //nolint:forcetypeassert,errcheck // the list holds nothing else.
	}
	if counted {
		c.mu.stats.Misses++
	}
	if f, ok := c.mu.flights[key]; ok {
		return value, f, nil
	}
	if c.mu.closed {
		return value, nil, ErrClosed
	}
	f = &flight[V]{done: make(chan struct{})}
	c.mu.flights[key] = f
	c.mu.stats.Loads++
	c.loads.Go(func() { c.load(key, f) })
	return value, f, nil
}

// load runs one load and shows its result.
func (c *Cache[K, V]) load(key K, f *flight[V]) {
	ctx, cancel := context.WithTimeout(c.life, c.cfg.Timeout)
	defer cancel()
	select {
	case c.tokens <- struct{}{}:
		f.value, f.err = c.cfg.Load(ctx, key)
		<-c.tokens
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.flights, key)
	if f.err == nil {
		c.keep(key, f.value)
	} else {
		c.mu.stats.Failures++
	}
	close(f.done)
}

// keep puts a value in and others out.
func (c *Cache[K, V]) keep(key K, value V) {
	e := &entry[K, V]{key: key, value: value, weight: c.cfg.Weigh(value)}
	if e.weight > c.cfg.Bytes {
		return
	}
	c.mu.entries[key] = c.mu.recent.PushFront(e)
	c.mu.bytes += e.weight
	for c.mu.bytes > c.cfg.Bytes {
		c.remove(c.mu.recent.Back())
	}
}

func (c *Cache[K, V]) remove(at *list.Element) {
	e := c.mu.recent.Remove(at).(*entry[K, V]) //nolint:forcetypeassert,errcheck // the list holds nothing else.
	delete(c.mu.entries, e.key)
	c.mu.bytes -= e.weight
}
