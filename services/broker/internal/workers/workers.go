package workers

import "sync"

// Pool is the workers of one disk.
type Pool struct {
	n    int
	wg   sync.WaitGroup
	wake *sync.Cond
	mu   struct {
		sync.Mutex
		urgent, bulk fifo
		bulkRunning  int
		closed       bool
	}
}

// fifo is a queue of jobs.
type fifo struct {
	jobs []func()
	head int
}

func (f *fifo) empty() bool { return f.head == len(f.jobs) }

func (f *fifo) push(job func()) { f.jobs = append(f.jobs, job) }

func (f *fifo) pop() func() {
	job := f.jobs[f.head]
	f.jobs[f.head] = nil
	f.head++
	if f.empty() {
		f.jobs, f.head = f.jobs[:0], 0
	}
	return job
}

// New starts n workers. Close ends them.
func New(n int) *Pool {
	w := &Pool{n: n}
	w.wake = sync.NewCond(&w.mu)
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// Do has a job done by a worker, in the order of the calls. It does not wait. After Close the job is done by the caller.
func (w *Pool) Do(job func()) { w.add(job, func() *fifo { return &w.mu.urgent }) }

// DoBulk has a long job done when there is room for it.
func (w *Pool) DoBulk(job func()) { w.add(job, func() *fifo { return &w.mu.bulk }) }

func (w *Pool) add(job func(), queue func() *fifo) {
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		job()
		return
	}
	queue().push(job)
	w.mu.Unlock()
	w.wake.Signal()
}

// Close waits until all jobs are done and ends the workers.
func (w *Pool) Close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.wake.Broadcast()
	w.wg.Wait()
}

func (w *Pool) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case !w.mu.urgent.empty():
			w.perform(w.mu.urgent.pop())
		case !w.mu.bulk.empty() && (w.mu.bulkRunning < max(1, w.n/4) || w.mu.closed):
			w.mu.bulkRunning++
			w.perform(w.mu.bulk.pop())
			w.mu.bulkRunning--
			w.wake.Signal()
		case w.mu.closed && w.mu.urgent.empty() && w.mu.bulk.empty():
			return
		default:
			w.wake.Wait()
		}
	}
}

func (w *Pool) perform(job func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	job()
}
