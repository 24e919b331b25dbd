package allinone

import (
	"context"
	"errors"
	"sync"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/node"
)

// AllInOne is all of SQ in one process.
type AllInOne struct {
	cfg   Config
	deps  Deps
	ports node.Ports // the admin port, if there is one; the others are the gateway's
	parts parts
}

// New binds the listeners and opens the brokers' data. Nothing is served before Run, which closes all.
func New(ctx context.Context, cfg Config, deps Deps) (*AllInOne, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &AllInOne{cfg: cfg, deps: deps, ports: node.Ports{Admin: node.Config{AdminHost: cfg.AdminHost}.Admin()}}
	if err := a.ports.Listen(ctx, deps.Outside); err != nil {
		return nil, err
	}
	var err error
	if a.parts, err = wire(ctx, cfg, deps); err != nil {
		a.ports.Close()
		return nil, err
	}
	return a, nil
}

// Addrs tells where the gateway listens, and the admin port.
func (a *AllInOne) Addrs() node.Addrs {
	addrs := a.parts.gateway.Addrs()
	addrs.Admin = a.ports.Addrs().Admin
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
		if ended := backoff.Sleep(ctx, a.deps.Clock, readyPoll); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// Run serves until ctx ends and then stops the services in order. It returns an error where one of them cannot go on.
func (a *AllInOne) Run(ctx context.Context) error {
	defer a.ports.Close()
	all := a.ports.Observed(a.deps.Log, a.deps.Metrics, nil)
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
			if backoff.Sleep(ctx, s.deps.Clock, restartWait) != nil {
				return nil //nolint:nilerr // it was told to stop.
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
