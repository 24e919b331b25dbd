package faultwire

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seedqueue/sq/libs/fault"
)

// Domain of the ErrorInfo that carries a fault's reason.
const Domain = "sq"

// Keys of the ErrorInfo's metadata. Offset and epoch are decimal, retryAfter is seconds with an "s": "1.5s".
const (
	metadataOffset     = "offset"
	metadataEpoch      = "epoch"
	metadataRetryAfter = "retryAfter"
)

// ToStatus gives the gRPC status of err: the kind's code, and an ErrorInfo with the kind's reason and details. A nil err is OK. An error
// that is a gRPC status and no fault stays as it is.
func ToStatus(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	return ToStatusReason(err, fault.KindOf(err).Reason())
}

// ToStatusReason is ToStatus with a reason of its own in place of the kind's, for a condition that only one service knows. A reader
// that does not know the reason takes the kind from the code.
func ToStatusReason(err error, reason string) *status.Status {
	f, isFault := errors.AsType[*fault.Error](err)
	if !isFault {
		if carried, ok := errors.AsType[interface {
			error
			GRPCStatus() *status.Status
		}](err); ok {
			return carried.GRPCStatus()
		}
	}
	st := status.New(fault.KindOf(err).GRPC(), clip(err.Error()))
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain}
	if isFault {
		info.Metadata = metadataOf(f)
	}
	detailed, detailErr := st.WithDetails(info)
	if detailErr != nil { // ErrorInfo always marshals: its strings are ASCII.
		return st
	}
	return detailed
}

func metadataOf(f *fault.Error) map[string]string {
	metadata := map[string]string{}
	if f.Offset != 0 {
		metadata[metadataOffset] = strconv.FormatUint(f.Offset, 10)
	}
	if f.Epoch != 0 {
		metadata[metadataEpoch] = strconv.FormatUint(f.Epoch, 10)
	}
	if f.RetryAfter > 0 {
		metadata[metadataRetryAfter] = strconv.FormatFloat(f.RetryAfter.Seconds(), 'f', -1, 64) + "s"
	}
	return metadata
}

// FromStatus reads a status that is not OK. It never returns nil.
func FromStatus(st *status.Status) *fault.Error {
	f := &fault.Error{Kind: kindOfCode(st.Code()), Op: st.Message()}
	info := infoOf(st)
	if info == nil {
		return f
	}
	if kind, ok := fault.KindOfReason(info.GetReason()); ok {
		f.Kind = kind
	}
	// What does not parse stays 0: the details are hints.
	f.Offset, _ = strconv.ParseUint(info.GetMetadata()[metadataOffset], 10, 64)
	f.Epoch, _ = strconv.ParseUint(info.GetMetadata()[metadataEpoch], 10, 64)
	if retryAfter, err := time.ParseDuration(info.GetMetadata()[metadataRetryAfter]); err == nil && retryAfter > 0 {
		f.RetryAfter = retryAfter
	}
	return f
}

// FromGRPC reads the error of a gRPC call: nil stays nil, everything else becomes a fault.
func FromGRPC(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return FromStatus(status.Convert(err))
}

// Reason gives the reason in the ErrorInfo of a gRPC call's error, "" where there is none.
func Reason(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return ""
	}
	return infoOf(st).GetReason()
}

// UnaryServer is the interceptor that turns the faults of a service's methods into statuses.
func UnaryServer(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	response, err := next(ctx, request)
	if err != nil {
		return nil, ToStatus(err).Err()
	}
	return response, nil
}

func infoOf(st *status.Status) *errdetails.ErrorInfo {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info
		}
	}
	return nil
}

// kindOfCode is for statuses without a reason of ours: from gRPC itself, a proxy, or a newer release.
func kindOfCode(code codes.Code) fault.Kind {
	switch code {
	case codes.Canceled:
		return fault.Canceled
	case codes.InvalidArgument:
		return fault.Invalid
	case codes.DeadlineExceeded:
		return fault.DeadlineExceeded
	case codes.NotFound:
		return fault.NotFound
	case codes.AlreadyExists:
		return fault.Exists
	case codes.PermissionDenied:
		return fault.Denied
	case codes.ResourceExhausted:
		return fault.Overloaded
	case codes.FailedPrecondition, codes.Aborted:
		return fault.Conflict
	case codes.OutOfRange:
		return fault.OffsetOutOfRange
	case codes.Unimplemented:
		return fault.UnsupportedVersion
	case codes.Unavailable:
		return fault.Unavailable
	case codes.DataLoss:
		return fault.Corrupt
	case codes.Unauthenticated:
		return fault.Unauthenticated
	case codes.OK, codes.Unknown, codes.Internal:
		return fault.Internal
	default:
		return fault.Internal
	}
}

// clip bounds a text for a status: protobuf strings are UTF-8.
func clip(text string) string {
	if len(text) > messageBytesMax {
		text = text[:messageBytesMax]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
