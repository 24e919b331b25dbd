package replica

import "sync"

// Workers is the fixed set of goroutines that do a disk's blocking calls, so that a hung disk costs that many threads and no more. Bulk
// work (digests) gets at most a quarter of them and yields to everything else.
type Workers struct {
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

// NewWorkers starts n workers. Close ends them.
func NewWorkers(n int) *Workers {
	w := &Workers{n: n}
	w.wake = sync.NewCond(&w.mu)
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// Do has a job done by a worker, in the order of the calls. It does not wait. After Close the job is done by the caller.
func (w *Workers) Do(job func()) { w.add(job, func() *fifo { return &w.mu.urgent }) }

// DoBulk has a long job done when there is room for it.
func (w *Workers) DoBulk(job func()) { w.add(job, func() *fifo { return &w.mu.bulk }) }

func (w *Workers) add(job func(), queue func() *fifo) {
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
func (w *Workers) Close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.wake.Broadcast()
	w.wg.Wait()
}

func (w *Workers) run() {
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

func (w *Workers) perform(job func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	job()
}
