package sq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/budget"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
)

// tracerName is what spans of this package say they are from.
const tracerName = "github.com/seedqueue/sq/sdk/go/sq"

// softwareName says Hello, before the program's own name.
const softwareName = "sq-go/0.1.0"

// Client talks to a cluster through its gateways. Make one a process and share it.
type Client struct {
	cfg    clientConfig
	budget *budget.Budget
	tracer trace.Tracer
	log    *slog.Logger

	// Publishing and fetching have a connection each, so that large answers do not hold up acks.
	publish, fetch *gateway.Link

	done    chan struct{} // closed by Close
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		closed    bool
		producers map[*Producer]struct{}
	}
}

// Open connects to a cluster. addrs has the addresses of gateways, "host:port" separated by commas, of which one must answer now and any
// may be used later. Empty: SQ_ADDR, or DefaultAddr. SQ_TOKEN and SQ_ZONE are read where no option says otherwise.
func Open(ctx context.Context, addrs string, options ...Option) (*Client, error) {
	cfg := clientConfig{
		token: os.Getenv("SQ_TOKEN"), zone: os.Getenv("SQ_ZONE"), budget: DefaultBudget,
		backoffMin: backoffMin, backoffMax: backoffMax,
		dial: (&net.Dialer{}).DialContext,
	}
	for _, option := range options {
		option(&cfg)
	}
	if addrs == "" {
		addrs = os.Getenv("SQ_ADDR")
	}
	if addrs == "" {
		addrs = DefaultAddr
	}
	list, err := parseAddrs(addrs)
	if err != nil {
		return nil, err
	}
	if cfg.budget < MinBudget {
		return nil, invalidf("open client", "budget of %d bytes is less than %d", cfg.budget, MinBudget)
	}
	if cfg.backoffMin <= 0 || cfg.backoffMax < cfg.backoffMin {
		return nil, invalidf("open client", "backoff from %s to %s", cfg.backoffMin, cfg.backoffMax)
	}
	c := &Client{cfg: cfg, budget: budget.New(cfg.budget), log: cfg.log, done: make(chan struct{})}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if cfg.tracers == nil {
		cfg.tracers = otel.GetTracerProvider()
	}
	c.tracer = cfg.tracers.Tracer(tracerName)
	link := c.linkConfig(list)
	c.publish, c.fetch = gateway.NewLink(link), gateway.NewLink(link)
	c.mu.producers = make(map[*Producer]struct{})
	if _, err := c.publish.Get(ctx); err != nil {
		c.publish.Close()
		return nil, errorOf("open client", err)
	}
	return c, nil
}

func (c *Client) linkConfig(addrs []string) gateway.Config {
	cfg := &c.cfg
	software := softwareName
	if cfg.software != "" {
		software += " " + cfg.software
	}
	return gateway.Config{
		Addrs: addrs, First: rand.IntN(len(addrs)), Dial: cfg.dial, TLS: cfg.tls, Pool: frame.NewPool(), Log: c.log, AnswerTimeout: frame.DefaultStallTimeout,
		Hello: frame.HelloParams{
			Role: wirecapnp.Role_client, ClientID: cfg.clientID, Software: software,
			Token: cfg.token, Zone: cfg.zone, ClusterID: cfg.clusterID,
		},
	}
}

func parseAddrs(addrs string) ([]string, error) {
	var list []string
	for addr := range strings.SplitSeq(addrs, ",") {
		addr = strings.TrimSpace(addr)
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, invalidf("open client", "address %q is not host:port", addr)
		}
		list = append(list, addr)
	}
	return list, nil
}

// Close ends the client, its producers and its loops at once. Records that are still on their way fail: Flush the producers before. It
// returns when all goroutines of the client have ended.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return nil
	}
	c.mu.closed = true
	producers := make([]*Producer, 0, len(c.mu.producers))
	for p := range c.mu.producers {
		producers = append(producers, p)
	}
	c.mu.Unlock()
	close(c.done)
	for _, p := range producers {
		p.box.Stop()
	}
	c.publish.Close()
	c.fetch.Close()
	c.running.Wait()
	return nil
}

// begin counts something that Close must wait for; false if the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// whileOpen gives a context that also ends when the client is closed. Call the function when it is not needed any more.
func (c *Client) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if !c.begin() {
		cancel(ErrClosed)
		return ctx, func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer c.running.Done()
		select {
		case <-c.done:
			cancel(ErrClosed)
		case <-ended:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(ended)
		cancel(context.Canceled)
	})
}

// retry makes a call that may be repeated, until it succeeds, fails for good, or ctx ends. try gets a context for one attempt.
func (c *Client) retry(ctx context.Context, l *gateway.Link, op string, try func(ctx context.Context, conn *frame.Client) error) error {
	var last *Error
	for attempt := 0; ; attempt++ {
		conn, err := l.Get(ctx)
		if err == nil {
			attemptCtx, cancel := context.WithTimeout(ctx, requestTimeout)
			err = try(attemptCtx, conn)
			cancel()
			if err == nil {
				return nil
			}
			l.Judge(ctx, conn, err)
		}
		if errors.Is(err, ErrClosed) {
			return &Error{Kind: KindCanceled, Op: op, Err: ErrClosed}
		}
		if ctx.Err() == nil || last == nil {
			last = errorOf(op, err)
		}
		if ctx.Err() != nil {
			return ended(ctx, op, last)
		}
		again := last.Kind.Retryable() || last.Kind == KindOutcomeUnknown || last.Kind == KindInternal && attempt+1 < internalTries
		if !again {
			return last
		}
		c.log.Log(ctx, gateway.RetryLevel(attempt+1), "call is tried again", "op", op, "attempt", attempt, "err", last)
		if !c.pause(ctx, attempt, last.RetryAfter) {
			return ended(ctx, op, last)
		}
	}
}

// ended says that a context ended before a repeatable call succeeded, and why it had not succeeded yet.
func ended(ctx context.Context, op string, last *Error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrClosed) {
		return &Error{Kind: KindCanceled, Op: op, Err: ErrClosed}
	}
	if last == nil || KindOf(last) == KindOf(cause) {
		return &Error{Kind: KindOf(cause), Op: op, Err: cause}
	}
	reason := last.Err
	if reason == nil {
		reason = last
	}
	return &Error{Kind: KindOf(cause), Op: op, Err: fmt.Errorf("%w; last attempt: %s: %w", cause, last.Kind, reason), last: last.Kind, tried: true}
}

// pause waits before attempt+1; false if ctx ended first.
func (c *Client) pause(ctx context.Context, attempt int, retryAfter time.Duration) bool {
	timer := time.NewTimer(c.backoff(attempt, retryAfter))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return true // the next attempt says so
	case <-ctx.Done():
		return false
	}
}

// backoff gives the pause behind an attempt: it doubles, with half of it left to chance, and is never shorter than a server's hint.
func (c *Client) backoff(attempt int, retryAfter time.Duration) time.Duration {
	d := c.cfg.backoffMin << min(attempt, 20)
	if d > c.cfg.backoffMax || d <= 0 {
		d = c.cfg.backoffMax
	}
	d = d/2 + rand.N(d/2+1)
	return max(d, min(retryAfter, retryAfterMax))
}
