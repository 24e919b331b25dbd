package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
)

// Config says who the process is and how it logs.
type Config struct {
	// Service is "sq-broker" and so on, Instance which of them, Version which build.
	Service, Instance, Version string
	// LogLevel is debug, info, warn or error; "" = info.
	LogLevel string
	// LogFormat is text or json; "" = text.
	LogFormat string
	// Out takes the log.
	Out io.Writer
}

// Telemetry is what a process observes itself with.
type Telemetry struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Tracers  trace.TracerProvider

	stop func(context.Context) error
}

// New makes the three. Close it by Shutdown.
func New(ctx context.Context, c Config) (*Telemetry, error) {
	log, err := newLog(c)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "sq_build_info",
		Help:        "Always 1; its labels tell the service and the version that run.",
		ConstLabels: prometheus.Labels{"service": c.Service, "version": c.Version},
	})
	build.Set(1)
	if err := Register(registry, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
		return nil, err
	}
	tracers, stop, err := newTracers(ctx, c, log)
	if err != nil {
		return nil, err
	}
	return &Telemetry{Log: log, Registry: registry, Tracers: tracers, stop: stop}, nil
}

// Register registers metrics, up to the first that cannot be: its name is taken.
func Register(registry prometheus.Registerer, metrics ...prometheus.Collector) error {
	for _, metric := range metrics {
		if err := registry.Register(metric); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Shutdown exports the spans that wait, within ctx.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if err := t.stop(ctx); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}

func newLog(c Config) (*slog.Logger, error) {
	var level slog.Level
	switch c.LogLevel {
	case "debug":
		level = slog.LevelDebug
	case "info", "":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: none of debug, info, warn, error", c.LogLevel)
	}
	if c.Out == nil {
		return nil, errors.New("open log: no writer")
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch c.LogFormat {
	case "text", "":
		handler = slog.NewTextHandler(c.Out, options)
	case "json":
		handler = slog.NewJSONHandler(c.Out, options)
	default:
		return nil, fmt.Errorf("log format %q: none of text, json", c.LogFormat)
	}
	log := slog.New(traced{handler}).With("service", c.Service)
	if c.Instance != "" {
		log = log.With("instance", c.Instance)
	}
	return log, nil
}

// traced puts the ids of the context's span into each line.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
