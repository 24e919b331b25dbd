package telemetry

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// newTracers reads OTEL_TRACES_EXPORTER and what goes with it. stop exports what waits.
func newTracers(ctx context.Context, c Config, log *slog.Logger) (trace.TracerProvider, func(context.Context) error, error) {
	exporter, err := autoexport.NewSpanExporter(ctx, autoexport.WithFallbackSpanExporter(
		func(context.Context) (sdktrace.SpanExporter, error) { return nowhere{}, nil }))
	if err != nil {
		return nil, nil, fmt.Errorf("open the span exporter that OTEL_TRACES_EXPORTER names: %w", err)
	}
	if _, unset := exporter.(nowhere); unset || autoexport.IsNoneSpanExporter(exporter) {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", c.Service),
		attribute.String("service.instance.id", c.Instance),
		attribute.String("service.version", c.Version),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describe the process to the tracer: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(reporting{exporter, log}), sdktrace.WithResource(about))
	return provider, provider.Shutdown, nil
}

// nowhere stands for an exporter that was not asked for.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// reporting logs what the exporter fails at; the SDK would print it to standard error.
type reporting struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (r reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.log.WarnContext(ctx, "spans are lost", "count", len(spans), "err", err)
	}
	return nil
}
