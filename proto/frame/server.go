package frame

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ServerConfig is what a Server is made of. Handler and Accept are required; the rest has the defaults of limits.go.
type ServerConfig struct {
	Handler Handler
	// Accept judges a Hello whose version fits, on the connection's goroutine. An error is told and ends the connection.
	Accept func(ctx context.Context, hello HelloInfo) (ServerInfo, *RemoteError)
	// Closed is called once for every accepted session when its connection has ended; nil = nobody asks.
	Closed func(*Session)
	// Log gets what nobody else hears of: panics of handlers (error), refused connections and broken streams (debug). nil = nothing is logged.
	Log *slog.Logger

	MaxMessageBytes    int           // of a request without its body, after Hello
	MaxBodyBytes       int           // of a request's body
	MaxInFlight        int           // of a connection; it is not read on while so many requests are unanswered or their answers unwritten
	MaxConnections     int           // more are closed at once
	MaxUnauthenticated int           // of them before Hello; more are closed at once
	HelloTimeout       time.Duration // from accept to the whole Hello
	StallTimeout       time.Duration // how long a client may send nothing inside a message or body
	WriteTimeout       time.Duration // how long a client may take nothing
	DefaultTimeout     time.Duration // of a request that names none; 30 s
	MaxTimeout         time.Duration // of a request that names more; 10 min
	Budget             Budget        // for the bodies of requests; nil = unbounded
	// BudgetOf gives an accepted session another Budget than that; nil = nobody has one of their own.
	BudgetOf func(HelloInfo) Budget
	Pool     *Pool // nil = an own one
}

func (c ServerConfig) withDefaults() ServerConfig {
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&c.MaxInFlight, DefaultMaxInFlight)
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxUnauthenticated, DefaultMaxUnauthenticated)
	setDefault(&c.HelloTimeout, DefaultHelloTimeout)
	setDefault(&c.StallTimeout, DefaultStallTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.DefaultTimeout, 30*time.Second)
	setDefault(&c.MaxTimeout, 10*time.Minute)
	if c.Pool == nil {
		c.Pool = NewPool()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server answers calls on the connections of its listeners.
type Server struct {
	cfg   ServerConfig
	stats serverStats
	conns sync.WaitGroup // grows under mu, until stopping
	mu    struct {
		sync.Mutex
		stopping  bool
		listeners map[net.Listener]struct{}
		conns     map[*serverConn]struct{}
	}
}

type serverStats struct {
	accepted, refused, requests, overBudget, malformed, panics atomic.Uint64
	connections, unauthenticated                               atomic.Int64
}

// ServerStats are counts since start, and how many connections there are.
type ServerStats struct {
	Accepted        uint64 // connections
	Refused         uint64 // connections, for their number
	Requests        uint64
	OverBudget      uint64 // requests whose body had no room
	Malformed       uint64 // connections ended for what they sent
	Panics          uint64 // of handlers
	Connections     int
	Unauthenticated int // connections before Hello
}

// NewServer makes a Server. It panics if Handler or Accept is missing.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Handler == nil || cfg.Accept == nil {
		panic("frame: server without Handler or Accept")
	}
	s := &Server{cfg: cfg.withDefaults()}
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*serverConn]struct{})
	return s
}

// Stats tells the counts.
func (s *Server) Stats() ServerStats {
	return ServerStats{
		Accepted:        s.stats.accepted.Load(),
		Refused:         s.stats.refused.Load(),
		Requests:        s.stats.requests.Load(),
		OverBudget:      s.stats.overBudget.Load(),
		Malformed:       s.stats.malformed.Load(),
		Panics:          s.stats.panics.Load(),
		Connections:     int(s.stats.connections.Load()),
		Unauthenticated: int(s.stats.unauthenticated.Load()),
	}
}

// Serve accepts connections until ctx ends or Shutdown; both give nil. When ctx ends, connections are closed at once. It closes the listener
// and returns when its connections have ended. It may be called for several listeners.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if !s.addListener(listener) {
		return closeListener(listener)
	}
	defer s.removeListener(listener)
	stop := context.AfterFunc(ctx, func() { _ = closeListener(listener) })
	defer stop()
	var own sync.WaitGroup
	err := s.accept(ctx, listener, &own)
	_ = closeListener(listener) // once more does no harm
	own.Wait()
	if ctx.Err() != nil || s.stopping() {
		return nil
	}
	return err
}

func (s *Server) accept(ctx context.Context, listener net.Listener, own *sync.WaitGroup) error {
	pause := time.Duration(0)
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			pause = 0
			s.start(ctx, conn, own)
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed) || s.stopping():
			return fmt.Errorf("accept: %w", err)
		default: // out of files, most likely
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.cfg.Log.WarnContext(ctx, "accept failed", "err", err)
			if !sleep(ctx, pause) {
				return nil
			}
		}
	}
}

// sleep waits; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// start serves a connection on a goroutine of its own, if there is room for it.
func (s *Server) start(ctx context.Context, conn net.Conn, own *sync.WaitGroup) {
	c := s.admit(conn)
	if c == nil {
		s.stats.refused.Add(1)
		s.cfg.Log.DebugContext(ctx, "connection refused for their number", "remote", conn.RemoteAddr().String())
		_ = conn.Close() // there is nothing to tell it
		return
	}
	own.Go(func() {
		defer s.conns.Done()
		defer s.forget(c)
		c.serve(ctx)
	})
}

// ServeConn serves one connection, which it owns, until it ends. ctx as in Serve.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) {
	c := s.admit(conn)
	if c == nil {
		s.stats.refused.Add(1)
		_ = conn.Close() // there is nothing to tell it
		return
	}
	defer s.conns.Done()
	defer s.forget(c)
	c.serve(ctx)
}

func (s *Server) admit(conn net.Conn) *serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopping || len(s.mu.conns) >= s.cfg.MaxConnections ||
		s.stats.unauthenticated.Load() >= int64(s.cfg.MaxUnauthenticated) {
		return nil
	}
	c := newServerConn(s, conn)
	s.mu.conns[c] = struct{}{}
	s.conns.Add(1)
	s.stats.accepted.Add(1)
	s.stats.connections.Add(1)
	s.stats.unauthenticated.Add(1)
	return c
}

func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
	s.stats.connections.Add(-1)
}

func (s *Server) addListener(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopping {
		return false
	}
	s.mu.listeners[listener] = struct{}{}
	return true
}

func (s *Server) removeListener(listener net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, listener)
}

func (s *Server) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stopping
}

func closeListener(listener net.Listener) error {
	if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close listener: %w", err)
	}
	return nil
}

// Shutdown stops accepting, says goAway on every connection, serves what is in flight or still comes, closes a connection when its client
// has or when nothing came for a grace time, and closes what is left when ctx ends. It returns when all connections have ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.mu.stopping = true
	conns := make([]*serverConn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	for listener := range s.mu.listeners {
		_ = closeListener(listener) // Serve reports
	}
	s.mu.Unlock()
	var drains sync.WaitGroup
	for _, c := range conns {
		drains.Go(func() { c.drain(ctx) })
	}
	drains.Wait()
	s.conns.Wait()
	return context.Cause(ctx)
}

// goAwayFill makes the goAway message.
func goAwayFill(response wirecapnp.Response) error {
	away, err := response.NewGoAway()
	if err != nil {
		return fmt.Errorf("make goAway: %w", err)
	}
	away.SetGraceMillis(uint32(goAwayGrace.Milliseconds()))
	return away.SetReason("server is stopping")
}
