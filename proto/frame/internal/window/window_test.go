package window_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seedqueue/sq/proto/frame/internal/window"
)

// Both invariants, and the ways in which a wait ends.
func TestWindow(t *testing.T) {
	w := window.New(3)
	for range 3 {
		if err := w.Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Lower(2)
	w.Lower(0) // none
	ended := make(chan struct{})
	close(ended)
	if err := w.Acquire(t.Context(), ended); !errors.Is(err, window.ErrEnded) {
		t.Errorf("a full window of an ended connection gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.None(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for none with three gave %v", err)
	}
	w.Release() // two are left: as many as the lowered limit
	if err := w.Acquire(t.Context(), ended); !errors.Is(err, window.ErrEnded) {
		t.Errorf("the lowered limit does not hold: %v", err)
	}
	waited := make(chan error)
	go func() { waited <- w.Acquire(t.Context(), nil) }()
	w.Release()
	if err := <-waited; err != nil {
		t.Errorf("a waiting caller got %v", err)
	}
	if n := w.Count(); n != 2 {
		t.Errorf("%d counted, want 2", n)
	}
	w.Release()
	w.Release()
	if err := w.None(ctx); err != nil {
		t.Errorf("none: %v", err)
	}
}
