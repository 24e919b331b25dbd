package sq_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout bounds a test that hangs; no test waits for it.
const timeout = 30 * time.Second

// setUp gives a server, a client that tries again quickly, and a context.
func setUp(t *testing.T, options ...sq.Option) (context.Context, *sqtest.Server, *sq.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	server := sqtest.Start(t)
	options = append([]sq.Option{sq.Backoff(time.Millisecond, 10*time.Millisecond), sq.Log(slog.New(testLog{t: t}))}, options...)
	return ctx, server, server.Client(t, options...)
}

// testLog shows what the client logs where a test fails.
type testLog struct {
	t *testing.T
}

func (testLog) Enabled(context.Context, slog.Level) bool { return testing.Verbose() }
func (l testLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l testLog) WithGroup(string) slog.Handler          { return l }
func (l testLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	if l.t.Context().Err() == nil {
		l.t.Log(text)
	}
	return nil
}

// readAll gives the values of a topic from its start to its end.
func readAll(ctx context.Context, t *testing.T, c *sq.Client, topic string, options ...sq.ReadOption) []string {
	t.Helper()
	var values []string
	for r, err := range c.Read(ctx, topic, append([]sq.ReadOption{sq.Until(sq.End)}, options...)...) {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, string(r.Value))
	}
	return values
}

func value(i int) []byte { return fmt.Appendf(nil, "value-%d", i) }
