package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Part is something that runs until its context ends.
type Part struct {
	// Name is for logs and errors.
	Name string
	// Run returns nil or the context's error when it was asked to stop, anything else when it failed.
	Run func(ctx context.Context) error
}

// running is a started part.
type running struct {
	name string
	stop context.CancelCauseFunc
	// done gives what Run returned, once.
	done chan error
}

// ended tells which part has returned, and with what.
type ended struct {
	index int
	err   error
}

// Run runs the parts until ctx ends (nil) or one fails (that error, and those of parts that then fail to stop).
func Run(ctx context.Context, log *slog.Logger, parts ...Part) error {
	// A part's context keeps ctx's values but not its end: the order of stopping is decided here.
	base := context.WithoutCancel(ctx)
	ends := make(chan ended, len(parts))
	started := make([]*running, len(parts))
	for i, part := range parts {
		own, stop := context.WithCancelCause(base)
		r := &running{name: part.Name, stop: stop, done: make(chan error, 1)}
		started[i] = r
		go func() {
			err := part.Run(own)
			r.done <- err
			ends <- ended{i, err}
		}()
	}
	first := wait(ctx, log, started, ends)
	errs := []error{first}
	cause := context.Cause(ctx)
	if first != nil {
		cause = &failure{first}
	}
	if ctx.Err() == nil && first == nil {
		log.Debug("all parts have ended")
	}
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		r.stop(cause)
		err := <-r.done
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(first, err) {
			errs = append(errs, fmt.Errorf("stop %s: %w", r.name, err))
		}
		log.Debug("part stopped", "part", r.name)
	}
	return errors.Join(errs...)
}

// failure is the cause of the end of a part's context where another part has failed.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Failure tells why a part whose context has ended must not take its time: what failed; nil where it was only told to stop.
func Failure(ctx context.Context) error {
	if f, ok := errors.AsType[*failure](context.Cause(ctx)); ok {
		return f.err
	}
	return nil
}

// wait returns when ctx ends, a part fails or all have returned.
func wait(ctx context.Context, log *slog.Logger, started []*running, ends <-chan ended) error {
	for left := len(started); left > 0; left-- {
		select {
		case <-ctx.Done():
			return nil
		case end := <-ends:
			name := started[end.index].name
			if end.err != nil {
				return fmt.Errorf("run %s: %w", name, end.err)
			}
			log.Debug("part ended", "part", name)
		}
	}
	return nil
}
