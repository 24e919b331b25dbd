package lifecycle_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records what parts do.
type journal struct {
	sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.Lock()
	defer j.Unlock()
	j.lines = append(j.lines, line)
}

// part runs until its context ends, then returns err.
func (j *journal) part(name string, err error) lifecycle.Part {
	return lifecycle.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		j.add("stop " + name)
		return err
	}}
}

func TestStopsInReverse(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := lifecycle.Run(ctx, slog.New(slog.DiscardHandler), j.part("disk", nil), j.part("log", context.Canceled), j.part("server", nil))
	if err != nil {
		t.Errorf("an asked-for stop is an error: %v", err)
	}
	if diff := cmp.Diff([]string{"stop server", "stop log", "stop disk"}, j.lines); diff != "" {
		t.Error(diff)
	}
}

func TestFirstFailureStopsAll(t *testing.T) {
	var j journal
	broken, stuck := errors.New("broken"), errors.New("stuck")
	fails := lifecycle.Part{Name: "log", Run: func(context.Context) error { return broken }}
	err := lifecycle.Run(t.Context(), slog.New(slog.DiscardHandler), j.part("disk", stuck), fails, j.part("server", nil))
	if !errors.Is(err, broken) || !errors.Is(err, stuck) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff("run log: broken\nstop disk: stuck", err.Error()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"stop server", "stop disk"}, j.lines); diff != "" {
		t.Error(diff)
	}
}

func TestDoneIsNotFailed(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	once := lifecycle.Part{Name: "once", Run: func(context.Context) error { return nil }}
	last := lifecycle.Part{Name: "last", Run: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	if err := lifecycle.Run(ctx, slog.New(slog.DiscardHandler), once, j.part("server", nil), last); err != nil {
		t.Error(err)
	}
	if err := lifecycle.Run(t.Context(), slog.New(slog.DiscardHandler), once, once); err != nil {
		t.Errorf("all parts done: %v", err)
	}
	if got := strings.Join(j.lines, ","); got != "stop server" {
		t.Errorf("got %q", got)
	}
}
