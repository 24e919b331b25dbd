package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seedqueue/sq/libs/version"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// openTimeout bounds how long a command waits for a gateway to answer at all.
const openTimeout = 10 * time.Second

// open connects to a gateway's data port.
func (p *program) open(ctx context.Context) (*sq.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	client, err := sq.Open(ctx, p.addr,
		sq.Software("sq/"+version.Version()), sq.Tracers(noop.NewTracerProvider()),
		sq.Log(slog.New(slog.NewTextHandler(p.env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	if err != nil {
		return nil, &connectError{err}
	}
	return client, nil
}

// connectError is an error of reaching the data port.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// topicName gives a topic's whole name.
func (p *program) topicName(topic string) string {
	if p.namespace == "" || strings.Contains(topic, "/") {
		return topic
	}
	return p.namespace + "/" + topic
}

// dataAdvice says what to do next about an error of the data port.
func (p *program) dataAdvice(err error) string {
	if _, unreached := errors.AsType[*connectError](err); unreached && sq.KindOf(err) == sq.KindInvalid {
		return "Name a gateway's data address with --addr or SQ_ADDR, such as localhost:6064."
	} else if unreached {
		return fmt.Sprintf("No data port of SQ answers at %s. Start SQ with 'sq dev', or name a gateway with --addr or SQ_ADDR.", p.addr)
	}
	if corrupt, ok := errors.AsType[*sq.CorruptError](err); ok && corrupt.Next > corrupt.Offset {
		return fmt.Sprintf("Read on behind it with '--partition %d --from %d'.", corrupt.Partition, corrupt.Next)
	}
	switch sq.KindOf(err) {
	case sq.KindNotFound:
		return "Look with 'sq topic list' and 'sq topic describe NAME'; create with 'sq topic create NAME'."
	case sq.KindTooLarge:
		return "Raise the topic's limit with 'sq topic alter NAME --batch-bytes 8MiB' (the most there is), or split the record."
	case sq.KindOutcomeUnknown:
		return "Look whether it is there with 'sq consume' before you send it again."
	case sq.KindUnavailable, sq.KindOverloaded, sq.KindNotLeader, sq.KindDeadlineExceeded:
		return "Try again in a moment; 'sq topic describe NAME' shows whether the partitions have leaders."
	case sq.KindOffsetTrimmed:
		return "Read from what is left with '--from earliest'."
	case sq.KindUnauthenticated, sq.KindDenied:
		return "Give a token that may do this in SQ_TOKEN."
	default:
		return ""
	}
}

// patience is how long a call may take before a person is told that it is waited for.
const patience = 3 * time.Second

// waiting says, once, that an answer takes long. stop is called when it has come, and says nothing after that.
func (p *program) waiting(addr string) (stop func()) {
	var mu sync.Mutex
	answered := false
	timer := time.AfterFunc(patience, func() {
		mu.Lock()
		defer mu.Unlock()
		if !answered {
			fmt.Fprintf(p.env.Stderr, "sq: no answer from %s in %v, still trying; Ctrl-C ends it, 'sq doctor' looks for the cause\n", addr, patience)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		answered = true
	}
}
