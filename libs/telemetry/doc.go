// Package telemetry makes a process's log, metrics registry and tracer provider, and the HTTP handlers that show its state.
//
//  1. Nothing is registered globally: what New makes is handed on by Deps.
//  2. A log line written with a context that carries a span has its trace_id and span_id.
//  3. Spans leave the process only if OTEL_TRACES_EXPORTER says where to; else the tracers do nothing but pass the caller's context on.
//     An exporter that fails costs a log line, never the request.
//  4. The admin handler (metrics, pprof) is for a listener that outsiders cannot reach; the health handler tells nothing secret.
//
// Called by mains and services. Everything is safe for concurrent use.
package telemetry
