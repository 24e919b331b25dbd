package memnet

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// window is how many bytes are under way in one direction before a writer blocks.
const window = 256 << 10

// What was read lends its memory to what is written next: as many buffers are kept, each of so many bytes at least.
const (
	spares    = 4
	spareSize = 4 << 10
	spareUnit = 64 << 10 // what they are a multiple of
)

// chunk is bytes under way, or the end of the stream where data is nil.
type chunk struct {
	data   []byte // of buffer; what was read is taken off
	buffer []byte
	due    time.Time
}

// pipe is one direction of a connection.
type pipe struct {
	clock clock.Clock
	// link is the way the bytes go; back is the way the reader's acknowledgements go.
	link, back *link
	mu         struct {
		sync.Mutex
		queue   []chunk
		size    int
		spare   [][]byte
		ended   bool  // the writer is done
		broken  error // both ends get it
		unread  bool  // the reader is gone
		changed chan struct{}

		readDeadline, writeDeadline time.Time
	}
}

func newPipe(c clock.Clock, l, back *link) *pipe {
	p := &pipe{clock: c, link: l, back: back}
	p.mu.changed = make(chan struct{})
	l.add(p)
	back.add(p)
	return p
}

// wakeLocked has everybody who waits look again.
func (p *pipe) wakeLocked() {
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

func (p *pipe) update(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	p.wakeLocked()
}

// wait returns when something changed or the earlier of the set times has come. It unlocks p.mu meanwhile.
func (p *pipe) wait(until ...time.Time) {
	changed := p.mu.changed
	var first time.Time
	for _, t := range until {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := p.clock.NewTimer(first.Sub(p.clock.Now()))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C():
	}
}

func (p *pipe) passed(deadline time.Time) bool {
	return !deadline.IsZero() && !p.clock.Now().Before(deadline)
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		state := p.link.state()
		switch {
		case p.mu.unread:
			return 0, net.ErrClosed
		case p.mu.broken != nil:
			return 0, p.mu.broken
		case p.passed(p.mu.readDeadline):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		}
		var due time.Time
		if len(p.mu.queue) > 0 && !state.cut {
			if due = p.mu.queue[0].due; !due.After(p.clock.Now()) {
				return p.takeLocked(b, state.drip)
			}
		}
		p.wait(p.mu.readDeadline, due)
	}
}

// takeLocked reads what has arrived, at most drip bytes where drip is set.
func (p *pipe) takeLocked(b []byte, drip int) (int, error) {
	if drip > 0 && len(b) > drip {
		b = b[:drip]
	}
	now := p.clock.Now()
	n := 0
	for n < len(b) && len(p.mu.queue) > 0 && !p.mu.queue[0].due.After(now) {
		head := &p.mu.queue[0]
		if head.data == nil {
			if n == 0 {
				return 0, io.EOF
			}
			break
		}
		k := copy(b[n:], head.data)
		n += k
		if head.data = head.data[k:]; len(head.data) == 0 {
			if cap(head.buffer) >= spareSize && len(p.mu.spare) < spares {
				p.mu.spare = append(p.mu.spare, head.buffer)
			}
			p.mu.queue = slices.Delete(p.mu.queue, 0, 1)
		}
	}
	p.mu.size -= n
	p.wakeLocked()
	return n, nil
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := 0
	for {
		switch {
		case p.mu.broken != nil:
			return done, p.mu.broken
		case p.mu.ended || (p.mu.unread && !p.back.state().cut): // behind a cut nobody can know
			return done, syscall.EPIPE
		case p.passed(p.mu.writeDeadline):
			return done, os.ErrDeadlineExceeded
		case done == len(b):
			return done, nil
		case p.mu.size >= window:
			p.wait(p.mu.writeDeadline)
			continue
		}
		n := min(len(b)-done, window-p.mu.size)
		p.putLocked(append(p.bufferLocked(n), b[done:done+n]...))
		done += n
		if done == len(b) {
			return done, nil
		}
	}
}

// bufferLocked gives an empty buffer for n bytes.
func (p *pipe) bufferLocked(n int) []byte {
	if n < spareSize {
		return make([]byte, 0, n)
	}
	for i, buffer := range p.mu.spare {
		if cap(buffer) >= n {
			p.mu.spare = slices.Delete(p.mu.spare, i, i+1)
			return buffer[:0]
		}
	}
	p.mu.spare = nil // they are too small for what is written now
	return make([]byte, 0, (n+spareUnit-1)/spareUnit*spareUnit)
}

func (p *pipe) putLocked(data []byte) {
	// A chunk that is due before an earlier one still waits for it: the queue is read from its head only.
	p.mu.queue = append(p.mu.queue, chunk{data, data, p.clock.Now().Add(p.link.state().delay)})
	p.mu.size += len(data)
	p.wakeLocked()
}

// end lets the reader see the end of the stream once it has read the rest.
func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.ended {
		p.mu.ended = true
		p.putLocked(nil)
		p.dropIfDoneLocked()
	}
}

// dropIfDoneLocked forgets a pipe that has neither writer nor reader.
func (p *pipe) dropIfDoneLocked() {
	if p.mu.ended && p.mu.unread {
		p.link.drop(p)
		p.back.drop(p)
	}
}

// abandon tells the writer that nobody reads any more.
func (p *pipe) abandon() {
	p.update(func() {
		p.mu.unread = true
		p.mu.queue, p.mu.size, p.mu.spare = nil, 0, nil
		p.dropIfDoneLocked()
	})
}

// fail breaks it for both ends.
func (p *pipe) fail(err error) {
	p.update(func() {
		if p.mu.broken == nil {
			p.mu.broken = err
		}
	})
}
