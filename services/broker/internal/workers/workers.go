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

func (f *fifo) len() int { return len(f.jobs) - f.head }

// take gives the i-th job and moves those before it back.
func (f *fifo) take(i int) func() {
	waiting := f.jobs[f.head:]
	job := waiting[i]
	copy(waiting[1:i+1], waiting[:i])
	waiting[0] = job
	return f.pop()
}

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

// ByHand makes a pool without workers, whose jobs Step does.
func ByHand() *Pool {
	w := &Pool{}
	w.wake = sync.NewCond(&w.mu)
	return w
}

// Waiting tells how many jobs wait.
func (w *Pool) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.urgent.len() + w.mu.bulk.len()
}

// Step does the i-th of the jobs that wait, urgent ones first.
func (w *Pool) Step(i int) {
	w.mu.Lock()
	queue := &w.mu.urgent
	if n := queue.len(); i >= n {
		queue, i = &w.mu.bulk, i-n
	}
	job := queue.take(i)
	w.mu.Unlock()
	job()
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
