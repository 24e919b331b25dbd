package sim

import (
	"context"
	"iter"
	"time"
)

// task is a call that may wait, as a coroutine: it runs on the world's thread until it waits, and goes on when what it waits for is there.
type task struct {
	p     *process
	next  func() (func() bool, bool)
	stop  func()
	yield func(func() bool) bool
	ready func() bool
}

// ended unwinds a task whose process is gone.
type ended struct{}

// spawn runs a call until it waits, or ends.
func (p *process) spawn(call func()) {
	t := &task{p: p}
	t.next, t.stop = iter.Pull(func(yield func(func() bool) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(ended); !ok {
					panic(r)
				}
			}
		}()
		t.yield = yield
		call()
	})
	t.resume()
}

func (t *task) resume() {
	w := t.p.n.w
	before := w.current
	w.current = t
	defer func() { w.current = before }()
	ready, more := t.next()
	if more {
		t.ready = ready
		t.p.tasks = append(t.p.tasks, t)
	}
}

// await lets others have their turn until ready.
func (w *World) await(ready func() bool) {
	if ready() {
		return
	}
	t := w.current
	if t == nil {
		panic("sim: a call waits on the world's thread")
	}
	if !t.yield(ready) {
		panic(ended{})
	}
}

// poll lets the tasks go on that can.
func (p *process) poll() {
	for i := 0; i < len(p.tasks) && !p.dead; i++ {
		if t := p.tasks[i]; t.ready() {
			p.tasks = append(p.tasks[:i:i], p.tasks[i+1:]...)
			t.resume()
			i = -1
		}
	}
}

// errands is the errand.Runner of one replica.
type errands struct {
	p       *process
	stopped bool
}

func (e *errands) Go(call func(context.Context)) {
	e.p.after("errand", e.p.n.brief(), func() {
		if !e.stopped {
			e.p.spawn(func() { call(context.Background()) })
		}
	})
}

func (e *errands) After(wait time.Duration, do func()) {
	e.p.after("due", wait, func() {
		if !e.stopped {
			do()
		}
	})
}

func (e *errands) Await(ready func() bool) { e.p.n.w.await(ready) }
func (e *errands) Stop()                   { e.stopped = true }
func (e *errands) Wait()                   {}
