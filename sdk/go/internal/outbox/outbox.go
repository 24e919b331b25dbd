package outbox

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/budget"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
)

// Config is what an Outbox is made of. All is required.
type Config struct {
	Topic   string // as it is called in errors and logs
	Link    *gateway.Link
	Account *budget.Account
	// Limit is the account's own.
	Limit int
	// LookUp asks for the topic's metadata; create asks for the topic to be made if it is missing.
	LookUp func(ctx context.Context, create bool) (*gateway.Topic, error)
	// Backoff gives the pause behind an attempt.
	Backoff func(attempt int, retryAfter time.Duration) time.Duration
	// Deliver gives the answer of a record to the callback that came with it, on the goroutine that sends.
	Deliver func(call any, a Answer, err error)
	// Time, and chance: a number in [0, n).
	Now    func() time.Time
	Timer  func(d time.Duration) *time.Timer
	Chance func(n int) int
	Tracer trace.Tracer
	Log    *slog.Logger

	Linger     time.Duration
	BatchBytes int
	Codec      batch.Codec
	AckNone    bool
}

// Answer says that a record is stored, and where.
type Answer struct {
	Partition  int
	Offset     int64 // -1 = not known
	Duplicate  bool
	Durability wirecapnp.Durability
	AppendTime int64 // microseconds since 1970
}

// Outbox has the records of a producer that have no answer yet.
type Outbox struct {
	cfg      Config
	builders sync.Pool // of *batch.Builder
	messages sync.Pool // of *[]byte
	parcels  sync.Pool // of *[]entry

	closed atomic.Bool // takes no more records
	plan   atomic.Pointer[plan]
	sticky atomic.Int64 // partition of records without a key
	moved  atomic.Int64 // counts parcels that went to other lanes

	done    chan struct{} // closed by Stop
	spawn   func(run func(ctx context.Context))
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		stopped bool   // starts no more lanes
		pid     uint64 // 0 = not asked for yet
		lanes   []*lane
	}
}

// New makes an Outbox. Stop it.
func New(cfg Config) *Outbox {
	p := &Outbox{cfg: cfg, done: make(chan struct{})}
	p.builders.New = func() any { return new(batch.Builder) }
	p.messages.New = func() any { return new([]byte) }
	p.parcels.New = func() any { return new([]entry) }
	p.sticky.Store(-1)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.spawn = func(run func(ctx context.Context)) { p.running.Go(func() { run(ctx) }) }
	return p
}

// Flush sends what is waiting and returns when every record that was handed over before has its answer, or when ctx ends.
func (p *Outbox) Flush(ctx context.Context) error {
	for {
		moved := p.moved.Load()
		p.mu.Lock()
		lanes := slices.Clone(p.mu.lanes)
		p.mu.Unlock()
		for _, l := range lanes {
			if err := l.flush(ctx); err != nil {
				return fault.Of("flush "+p.cfg.Topic, err)
			}
		}
		if p.moved.Load() == moved {
			return nil
		}
	}
}

// Close takes no more records.
func (p *Outbox) Close() { p.closed.Store(true) }

// Stop ends the lanes; what they have fails. It returns when they have ended.
func (p *Outbox) Stop() {
	p.closed.Store(true)
	p.mu.Lock()
	first := !p.mu.stopped
	p.mu.stopped = true
	p.mu.Unlock()
	if first {
		close(p.done)
		p.cancel()
	}
	p.running.Wait()
}

// WakeAll lets the lanes look for records that nobody wants any more.
func (p *Outbox) WakeAll() {
	if plan := p.plan.Load(); plan != nil {
		for _, l := range plan.lanes {
			l.signal()
		}
	}
}

func (p *Outbox) closedError() error {
	return &fault.Error{Kind: wirecapnp.ErrorKind_canceled, Op: "publish to " + p.cfg.Topic, Err: fault.ErrClosed}
}

// start runs a lane; false if the outbox is stopped.
func (p *Outbox) start(l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stopped {
		return false
	}
	p.spawn(l.run)
	return true
}

// producerID gives the id of a new session. fresh: the id of a session that broke must not come again; else lanes share one, each with its
// own sequence.
func (p *Outbox) producerID(ctx context.Context, fresh bool) (uint64, error) {
	p.mu.Lock()
	id := p.mu.pid
	p.mu.Unlock()
	if id != 0 && !fresh {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := p.cfg.Link.Get(ctx)
	if err != nil {
		return 0, err
	}
	id, err = gateway.InitProducer(ctx, conn)
	if err != nil {
		p.cfg.Link.Judge(context.WithoutCancel(ctx), conn, err)
		return 0, err
	}
	if fresh {
		return id, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.pid == 0 {
		p.mu.pid = id
	}
	return p.mu.pid, nil
}
