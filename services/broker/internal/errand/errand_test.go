package errand_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/services/broker/internal/errand"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is due is done when it is, what is not due by Stop is not, and Wait joins all of it.
func TestRunner(t *testing.T) {
	c := clock.NewManual(time.Unix(1e9, 0))
	ctx, cancel := context.WithCancel(context.Background())
	r := errand.New(ctx, c)
	cancel() // the runner outlives the call that made it
	done := make(chan string, 3)
	r.After(time.Second, func() { done <- "soon" })
	r.After(time.Hour, func() { done <- "late" })
	r.Go(func(ctx context.Context) {
		<-ctx.Done()
		done <- "stopped"
	})
	if err := c.AwaitPending(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	if got := <-done; got != "soon" {
		t.Errorf("after a second: %q", got)
	}
	r.Stop()
	r.Wait()
	if got := <-done; got != "stopped" || len(done) != 0 {
		t.Errorf("after Stop: %q and %d more", got, len(done))
	}
}
