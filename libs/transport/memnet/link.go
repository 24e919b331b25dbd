package memnet

import (
	"sync"
	"time"
)

// linkState is how bytes pass from one host to another.
type linkState struct {
	cut   bool
	delay time.Duration
	drip  int // most bytes a read gives; 0 = no limit
}

// link is one direction between two hosts.
type link struct {
	mu struct {
		sync.Mutex
		linkState
		pipes   map[*pipe]struct{}
		changed chan struct{}
	}
}

func newLink() *link {
	l := &link{}
	l.mu.pipes = map[*pipe]struct{}{}
	l.mu.changed = make(chan struct{})
	return l
}

func (l *link) state() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.linkState
}

// watch gives the state and a channel that is closed when it changes.
func (l *link) watch() (linkState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.linkState, l.mu.changed
}

func (l *link) set(change func(*linkState)) {
	l.mu.Lock()
	change(&l.mu.linkState)
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
	l.mu.Unlock()
	for _, p := range l.all() {
		p.update(func() {})
	}
}

// all lists the pipes without holding the lock: a pipe asks the link's state while it holds its own.
func (l *link) all() []*pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*pipe, 0, len(l.mu.pipes))
	for p := range l.mu.pipes {
		out = append(out, p)
	}
	return out
}

func (l *link) add(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.pipes[p] = struct{}{}
}

func (l *link) drop(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.pipes, p)
}
