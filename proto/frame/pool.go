package frame

import (
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"
)

// Size classes of pooled buffers: powers of two.
const (
	classBitsMin = 9  // 512 B
	classBitsMax = 24 // 16 MiB; larger ones are not pooled
)

// Pool recycles buffers and messages. Share one among the connections of a process.
type Pool struct {
	classes  [classBitsMax - classBitsMin + 1]sync.Pool // of *Buffer
	messages sync.Pool                                  // of *Message
	builders sync.Pool                                  // of *builder
}

// NewPool makes an empty pool.
func NewPool() *Pool { return &Pool{} }

// Buffer is pooled memory. It is a Body too: closing it releases it.
type Buffer struct {
	data     []byte    // len: what is used
	whole    [1][]byte // data, for a writev
	pool     *Pool
	budget   Budget // nil: none
	reserved int
	released atomic.Bool
}

// class gives the index of the smallest class that holds n bytes; -1 if none does.
func class(n int) int {
	if n <= 1<<classBitsMin {
		return 0
	}
	index := bits.Len(uint(n-1)) - classBitsMin
	if index > classBitsMax-classBitsMin {
		return -1
	}
	return index
}

// Get gives a buffer of n bytes whose content is undefined.
func (p *Pool) Get(n int) *Buffer {
	index := class(n)
	if index < 0 {
		return &Buffer{data: make([]byte, n), pool: p}
	}
	if b, ok := p.classes[index].Get().(*Buffer); ok {
		b.data = b.data[:n]
		b.released.Store(false)
		return b
	}
	return &Buffer{data: make([]byte, n, 1<<(index+classBitsMin)), pool: p}
}

// Bytes gives the content. It must not be used after Release.
func (b *Buffer) Bytes() []byte { return b.data }

// Release gives the memory back. Call it once; a nil Buffer does nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	if b.released.Swap(true) {
		panic("frame: buffer released twice")
	}
	if b.budget != nil && b.reserved > 0 {
		b.budget.Release(b.reserved)
	}
	b.budget, b.reserved = nil, 0
	if poison {
		for i := range b.data {
			b.data[i] = 0xdb
		}
	}
	if index := class(cap(b.data)); index >= 0 && cap(b.data) == 1<<(index+classBitsMin) {
		b.pool.classes[index].Put(b)
	}
}

// grow moves the content to a larger buffer of n bytes and hands the reservation over.
func (b *Buffer) grow(n int) *Buffer {
	if n <= cap(b.data) {
		b.data = b.data[:n]
		return b
	}
	larger := b.pool.Get(n)
	copy(larger.data, b.data)
	larger.budget, larger.reserved = b.budget, b.reserved
	b.budget, b.reserved = nil, 0
	b.Release()
	return larger
}

// Len implements Body.
func (b *Buffer) Len() int { return len(b.data) }

// WriteTo implements Body.
func (b *Buffer) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.data)
	return int64(n), err
}

// Close implements Body.
func (b *Buffer) Close() error {
	b.Release()
	return nil
}

// Message is a message that was read, with its memory.
type Message struct {
	msg   capnp.Message
	arena capnp.ReadOnlySingleSegment
	buf   *Buffer
	pool  *Pool
}

// Capnp gives the message. It must not be used after Release.
func (m *Message) Capnp() *capnp.Message { return &m.msg }

// Release gives the memory back. Call it once.
func (m *Message) Release() {
	m.msg.Release()
	m.buf.Release()
	m.buf = nil
	m.pool.messages.Put(m)
}

// message wraps a segment.
func (p *Pool) message(buf *Buffer) (*Message, error) {
	m, ok := p.messages.Get().(*Message)
	if !ok {
		m = &Message{pool: p}
	}
	m.buf = buf
	m.msg.DepthLimit = depthLimit
	m.msg.TraverseLimit = uint64(max(traverseFactor*len(buf.data), traverseMin))
	m.arena.ReplaceData(buf.data)
	if _, err := m.msg.Reset(&m.arena); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}
