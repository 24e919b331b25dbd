package allinone

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/telemetry"
)

// AllInOne is all of SQ in one process.
type AllInOne struct {
	cfg   Config
	deps  Deps
	admin net.Listener // nil = none
	parts parts
}

// Addrs are the addresses that can be reached from outside, as host:port; Admin is "" where there is none.
type Addrs struct {
	Capnp, GRPC, HTTP, Admin string
}

// New binds the listeners and opens the brokers' data. Nothing is served before Run, which closes all.
func New(ctx context.Context, cfg Config, deps Deps) (_ *AllInOne, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &AllInOne{cfg: cfg, deps: deps}
	if cfg.AdminHost != "" {
		if a.admin, err = deps.Outside.Listen(ctx, cfg.AdminHost); err != nil {
			return nil, fault.Errorf(fault.Unavailable, "admin-host: listen on %s: %w", cfg.AdminHost, err)
		}
	}
	if a.parts, err = wire(ctx, cfg, deps); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *AllInOne) close() {
	if a.admin != nil {
		_ = a.admin.Close() // that it was closed before is all that can be wrong
	}
}

// Addrs tells where the gateway listens, and the admin port.
func (a *AllInOne) Addrs() Addrs {
	g := a.parts.gateway.Addrs()
	addrs := Addrs{Capnp: g.Capnp, GRPC: g.GRPC, HTTP: g.HTTP}
	if a.admin != nil {
		addrs.Admin = a.admin.Addr().String()
	}
	return addrs
}

// Ready is nil when every service is.
func (a *AllInOne) Ready() error {
	for _, p := range a.parts.inOrder() {
		if err := p.Ready(); err != nil {
			return fault.Wrap(p.name(), err)
		}
	}
	return nil
}

// WaitReady returns when every service is ready, or with the reason why not when ctx ends.
func (a *AllInOne) WaitReady(ctx context.Context) error {
	for {
		err := a.Ready()
		if err == nil {
			return nil
		}
		timer := a.deps.Clock.NewTimer(readyPoll)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Run serves until ctx ends and then stops the services in order. It returns an error where one of them cannot go on.
func (a *AllInOne) Run(ctx context.Context) error {
	defer a.close()
	var all []lifecycle.Part
	if a.admin != nil {
		all = append(all, lifecycle.Part{Name: "admin", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, a.deps.Log, a.admin, telemetry.AdminHandler(a.deps.Metrics))
		}})
	}
	for _, p := range a.parts.inOrder() {
		all = append(all, lifecycle.Part{Name: p.name(), Run: p.Run})
	}
	return lifecycle.Run(ctx, a.deps.Log, all...)
}

// supervised is a service that is started anew when its disk is poisoned.
type supervised struct {
	title string
	deps  Deps
	// start makes the service's next life.
	start func(context.Context) (service, error)

	mu struct {
		sync.Mutex

		life service // nil between two lives
	}
}

func (s *supervised) name() string { return s.title }

func (s *supervised) current() service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.life
}

func (s *supervised) set(life service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.life = life
}

// Ready is nil when the service is.
func (s *supervised) Ready() error {
	life := s.current()
	if life == nil {
		return fault.Errorf(fault.Unavailable, "it is being started anew")
	}
	return life.Ready()
}

// Run runs one life after the other.
func (s *supervised) Run(ctx context.Context) error {
	for {
		err := s.current().Run(ctx)
		if ctx.Err() != nil || !fault.Is(err, fault.DiskPoisoned) {
			return err
		}
		s.set(nil)
		s.deps.Log.Error("disk poisoned, starting anew", "process", s.title, "err", err)
		for {
			if !s.pause(ctx, restartWait) {
				return nil
			}
			life, err := s.start(ctx)
			if err == nil {
				s.set(life)
				break
			}
			if !fault.Is(err, fault.DiskPoisoned) {
				return fault.Wrap("start anew", err)
			}
			s.deps.Log.Error("start anew", "process", s.title, "err", err)
		}
	}
}

// pause waits; false where ctx has ended.
func (s *supervised) pause(ctx context.Context, d time.Duration) bool {
	timer := s.deps.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
