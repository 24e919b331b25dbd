package rest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
)

// problem is an error as HTTP tells it.
type problem struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Details []map[string]any `json:"details"`

	retryAfter float64 // seconds, 0 = no hint
}

// offsetNames says what the offset of an error means.
//
//nolint:gochecknoglobals // a constant table: Go has no constant maps.
var offsetNames = map[fault.Kind]string{
	fault.OffsetTrimmed:    "logStart",
	fault.OffsetTiered:     "localStart",
	fault.OffsetOutOfRange: "highWatermark",
	fault.OutOfOrder:       "nextSequence",
}

// problemOf takes a fault or the status of a call apart. more are further details.
func problemOf(err error, more map[string]any) *problem {
	st := faultwire.ToStatus(err)
	f := faultwire.FromStatus(st)
	if beyondMessage(st) { // gRPC has one code for this and for overload, which passes
		f = fault.Errorf(fault.TooLarge, "the request is too large: %s", strings.TrimPrefix(st.Message(), "grpc: "))
		st = faultwire.ToStatus(f)
	}
	details := map[string]any{"reason": f.Kind.Reason(), "retryable": f.Kind.Retryable()}
	for _, detail := range st.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != faultwire.Domain {
			continue
		}
		details["reason"] = info.GetReason()
		for key, value := range info.GetMetadata() {
			details[key] = value
		}
	}
	delete(details, "offset")
	if name, ok := offsetNames[f.Kind]; ok {
		details[name] = strconv.FormatUint(f.Offset, 10)
	}
	maps.Copy(details, more)
	return &problem{Code: f.Kind.HTTP(), Message: st.Message(), Details: []map[string]any{details}, retryAfter: f.RetryAfter.Seconds()}
}

// beyondMessage tells whether gRPC itself refused a message for its size.
func beyondMessage(st *status.Status) bool {
	return st.Code() == codes.ResourceExhausted && len(st.Details()) == 0 &&
		(strings.HasPrefix(st.Message(), "grpc: received message larger than max") || strings.HasPrefix(st.Message(), "trying to send message larger than max"))
}

// httpProblem is an error that only HTTP has.
func httpProblem(code int, reason, message string) *problem {
	return &problem{Code: code, Message: message, Details: []map[string]any{{"reason": reason, "retryable": false}}}
}

func (p *problem) write(w http.ResponseWriter) {
	header := w.Header()
	header.Del("Sq-Next-Cursor")
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter))))
	}
	w.WriteHeader(p.Code)
	_, _ = w.Write(p.json()) // a client that is gone needs no answer
}

func (p *problem) json() []byte {
	data, err := json.Marshal(p)
	if err != nil { // strings, numbers and maps of them always encode
		return []byte(`{"code":500,"message":"the error cannot be shown","details":[{"reason":"INTERNAL"}]}`)
	}
	return append(data, '\n')
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) { problemOf(err, nil).write(w) }

// muxError is grpc-gateway's way to fail.
func muxError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	var routed *runtime.HTTPStatusError
	if errors.As(err, &routed) {
		err = routed.Err
	}
	problemOf(status.Convert(err).Err(), nil).write(w)
}

// muxRouting is grpc-gateway's way to say that there is no such route.
func muxRouting(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	switch code {
	case http.StatusMethodNotAllowed:
		httpProblem(code, "METHOD_NOT_ALLOWED", r.Method+" is not for this path; /docs lists the routes").write(w)
	case http.StatusBadRequest:
		fail(w, fault.Errorf(fault.Invalid, "the path is malformed"))
	default:
		notFound(w, r)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	fail(w, fault.Errorf(fault.NotFound, "there is no such path; /docs lists the routes"))
}
