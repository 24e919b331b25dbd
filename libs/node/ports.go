package node

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/transport"
)

// Port is an address that a process serves on.
type Port struct {
	// Host is the address to listen on, host:port.
	Host string
	// Advertise is the address that others reach it by; "" = where it listens.
	Advertise string
	// Listener is bound by Ports.Listen.
	net.Listener
}

// Ports are those of one process, each with the settings <name>-host and advertise-<name>; nil = it has none of the kind.
type Ports struct {
	Capnp, GRPC, HTTP, Admin *Port
}

// Addrs are addresses of a process by its ports, as host:port; "" where it has none.
type Addrs struct {
	Capnp, GRPC, HTTP, Admin string
}

type namedPort struct {
	name string
	*Port
}

// all gives those that there are.
func (p Ports) all() []namedPort {
	var there []namedPort
	for _, port := range []namedPort{{"capnp", p.Capnp}, {"grpc", p.GRPC}, {"http", p.HTTP}, {"admin", p.Admin}} {
		if port.Port != nil {
			there = append(there, port)
		}
	}
	return there
}

func (p Ports) check() error {
	for _, port := range p.all() {
		if _, _, err := net.SplitHostPort(port.Host); err != nil {
			return fault.Errorf(fault.Invalid, "%s-host: %q is not host:port", port.name, port.Host)
		}
	}
	for _, port := range p.all() {
		if _, _, err := net.SplitHostPort(port.Advertise); err != nil && port.Advertise != "" {
			return fault.Errorf(fault.Invalid, "advertise-%s: %q is not host:port", port.name, port.Advertise)
		}
	}
	return nil
}

// Listen binds all ports; with an error, none. The error is fault.Unavailable and names the setting.
func (p Ports) Listen(ctx context.Context, network transport.Network) (err error) {
	for _, port := range p.all() {
		if port.Listener, err = network.Listen(ctx, port.Host); err != nil {
			port.Listener = nil
			p.Close()
			return fault.Errorf(fault.Unavailable, "%s-host: listen on %s: %w", port.name, port.Host, err)
		}
	}
	return nil
}

// Close closes what is bound. It may be called again.
func (p Ports) Close() {
	for _, port := range p.all() {
		if port.Listener != nil {
			_ = port.Close() // that it was closed before is all that can be wrong
		}
	}
}

// Addrs tells where the process listens.
func (p Ports) Addrs() Addrs {
	return p.each(func(port *Port) string { return port.Addr().String() })
}

// Reached tells where others reach the process. hostname stands for a wildcard, "" = leave it.
func (p Ports) Reached(hostname string) Addrs {
	return p.each(func(port *Port) string { return port.reached(hostname) })
}

func (p Ports) each(address func(*Port) string) Addrs {
	of := func(port *Port) string {
		if port == nil {
			return ""
		}
		return address(port)
	}
	return Addrs{Capnp: of(p.Capnp), GRPC: of(p.GRPC), HTTP: of(p.HTTP), Admin: of(p.Admin)}
}

func (p *Port) reached(hostname string) string {
	if p.Advertise != "" {
		return p.Advertise
	}
	address := p.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || hostname == "" || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort(hostname, port)
}

// Observed gives the parts that show a process's state: the admin port, and the HTTP port where health is all that is served there.
func (p Ports) Observed(log *slog.Logger, metrics *prometheus.Registry, health *telemetry.Health) []lifecycle.Part {
	var parts []lifecycle.Part
	if p.Admin != nil {
		parts = append(parts, lifecycle.Part{Name: "admin", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, log, p.Admin, telemetry.AdminHandler(metrics))
		}})
	}
	if health != nil {
		parts = append(parts, lifecycle.Part{Name: "health", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, log, p.HTTP, telemetry.HealthHandler(*health))
		}})
	}
	return parts
}
