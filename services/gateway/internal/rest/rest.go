package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
)

// bodyLinger is how long the rest of a refused body is read over.
const bodyLinger = 500 * time.Millisecond

// Config is what a Handler is made of.
type Config struct {
	Conn    *grpc.ClientConn // to the gateway's own gRPC server, in memory
	Gate    *admission.Gate
	Health  http.Handler // of /livez, /readyz and /version
	Sealer  func() cursor.Sealer
	Clock   clock.Clock
	Log     *slog.Logger
	Tracers trace.TracerProvider
	Version string
	Limits  Limits
}

// Handler serves HTTP.
type Handler struct {
	cfg      Config
	data     datav1.DataServiceClient
	root     http.Handler
	once     sync.Once
	draining chan struct{}
}

// New makes a Handler.
func New(ctx context.Context, cfg Config) (*Handler, error) {
	h := &Handler{cfg: cfg, data: datav1.NewDataServiceClient(cfg.Conn), draining: make(chan struct{})}
	mux, err := newMux(ctx, cfg.Conn)
	if err != nil {
		return nil, err
	}
	document, err := describe(cfg.Version)
	if err != nil {
		return nil, err
	}
	root := http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz", "/version"} {
		root.Handle("GET "+path, cfg.Health)
	}
	root.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // a client that is gone needs no answer
	})
	root.Handle("GET /docs/", pages())
	root.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusMovedPermanently))
	root.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
	for _, prefix := range []string{"/v1/topics/{topic}", "/v1/namespaces/{namespace}/topics/{topic}"} {
		root.Handle("GET "+prefix+"/records", h.admit(h.fetch))
		root.Handle("POST "+prefix+"/records", h.admit(h.publish))
	}
	root.Handle("/v1/", h.admit(h.whole(mux)))
	root.HandleFunc("/", notFound)
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, fault.Errorf(fault.Denied, "a page of another site may not change anything here"))
	}))
	h.root = h.safe(protection.Handler(otelhttp.NewHandler(root, "http", otelhttp.WithTracerProvider(cfg.Tracers), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool { return len(r.URL.Path) > 3 && r.URL.Path[:4] == "/v1/" }))))
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.root.ServeHTTP(w, r) }

// Drain ends streams and long polls.
func (h *Handler) Drain() { h.once.Do(func() { close(h.draining) }) }

// newMux makes the routes of the services' annotations.
func newMux(ctx context.Context, conn *grpc.ClientConn) (*runtime.ServeMux, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{EmitDefaultValues: true}}),
		runtime.WithIncomingHeaderMatcher(func(name string) (string, bool) { return keyMetadata, name == keyHeader }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithErrorHandler(muxError),
		runtime.WithRoutingErrorHandler(muxRouting),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
	)
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		controlv1.RegisterTopicServiceHandler, controlv1.RegisterNamespaceServiceHandler, controlv1.RegisterClusterServiceHandler,
		datav1.RegisterDataServiceHandler,
	} {
		if err := register(ctx, mux, conn); err != nil {
			return nil, fmt.Errorf("register REST routes: %w", err)
		}
	}
	return mux, nil
}

// safe survives a panic and sets the headers that every answer has.
func (h *Handler) safe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && err == http.ErrAbortHandler { //nolint:errorlint // that very value is net/http's.
				panic(cause) //nolint:forbidigo // net/http ends the connection by it.
			}
			h.cfg.Log.Error("request panicked", "method", r.Method, "err", cause, "stack", string(debug.Stack()))
			fail(w, fault.Errorf(fault.Internal, "the gateway failed to serve the request"))
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// admit holds a slot while a request is served, and checks what all share.
func (h *Handler) admit(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := h.cfg.Gate.Enter()
		if err != nil {
			fail(w, err)
			return
		}
		defer leave()
		if err := checkKey(r); err != nil {
			fail(w, err)
			return
		}
		if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			httpProblem(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must not be compressed").write(w)
			return
		}
		h.answerBy(w, h.cfg.Limits.BodyTime+h.cfg.Limits.WaitMax+h.cfg.Limits.AnswerTime)
		next(w, r)
	})
}

// bodyBy bounds how long the body, or its next part, may take; 0 = it is there. A bound must not stay behind the body: net/http watches for
// the client's end by reading, and takes a read that is too late for it. Not every ResponseWriter can do it.
func (h *Handler) bodyBy(w http.ResponseWriter, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = h.cfg.Clock.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// answerBy bounds how long the answer, or its next part, may take to go.
func (h *Handler) answerBy(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(h.cfg.Clock.Now().Add(d)) // not every ResponseWriter can do it
}

// body reads a request's body within its time and the gate's budget. release gives the memory back; it is never nil.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, most int) (data []byte, release func(), err error) {
	h.bodyBy(w, h.cfg.Limits.BodyTime)
	data, release, err = readBody(r.Context(), h.cfg.Gate.Bodies(), r, most)
	h.bodyEnds(w, err == nil)
	return data, release, err
}

// bodyEnds takes the bound away behind a whole body. With another the connection cannot go on: what is left is read over for a moment,
// so that the client sees the answer.
func (h *Handler) bodyEnds(w http.ResponseWriter, whole bool) {
	if whole {
		h.bodyBy(w, 0)
		return
	}
	w.Header().Set("Connection", "close")
	h.bodyBy(w, bodyLinger)
}

// whole reads and checks the JSON of a request before grpc-gateway sees it, so that what is wrong with it is told as what it is.
func (h *Handler) whole(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, release, err := h.body(w, r, h.cfg.Limits.BodyBytes)
		defer release()
		if err == nil && len(data) > 0 {
			var path []string
			if isPublish(r.URL.Path) {
				path = publishPath
			}
			data, err = prepareJSON(data, path, h.cfg.Limits.JSONDepth)
		}
		if err != nil {
			fail(w, err)
			return
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = nopCloser(data), int64(len(data))
		next.ServeHTTP(w, r)
	}
}
