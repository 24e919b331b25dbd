package workers

import (
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Bulk work never takes more than its share, however much there is: the rest goes on.
func TestBulkLeavesRoom(t *testing.T) {
	p := New(8)
	hang := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(2)
	var mu sync.Mutex
	running := 0
	for i := range 20 {
		p.DoBulk(func() {
			mu.Lock()
			running++
			mu.Unlock()
			if i < 2 {
				begun.Done()
			}
			<-hang
		})
	}
	begun.Wait()
	urgent := make(chan struct{})
	for range 6 {
		p.Do(func() { urgent <- struct{}{} })
	}
	for range 6 {
		<-urgent
	}
	mu.Lock()
	if running != 2 {
		t.Errorf("%d of 8 workers do bulk work, want 2", running)
	}
	mu.Unlock()
	close(hang)
	p.Close()
	if running != 20 {
		t.Errorf("%d bulk jobs were done, want 20", running)
	}
}

// Close does what was handed over; later jobs are done by whoever has them.
func TestClose(t *testing.T) {
	p := New(2)
	done := 0
	var mu sync.Mutex
	for range 100 {
		p.Do(func() { mu.Lock(); done++; mu.Unlock() })
	}
	p.Close()
	if done != 100 {
		t.Errorf("%d jobs were done, want 100", done)
	}
	p.Do(func() { done++ })
	if done != 101 {
		t.Error("a job after Close was not done")
	}
}

// By hand a job is done when it is asked for, in any order, and nothing by itself.
func TestByHand(t *testing.T) {
	p := ByHand()
	var done []int
	for i := range 4 {
		p.Do(func() { done = append(done, i) })
	}
	p.DoBulk(func() { done = append(done, 9) })
	for _, i := range []int{2, 4 - 1, 1, 0, 0} {
		p.Step(i)
	}
	if want := []int{2, 9, 1, 0, 3}; !slices.Equal(done, want) || p.Waiting() != 0 {
		t.Errorf("jobs were done in the order %v, want %v; %d wait", done, want, p.Waiting())
	}
}
