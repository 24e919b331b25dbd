package fault

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// row is what a kind is on each wire.
type row struct {
	name      string // as logged
	reason    string // as in REST and gRPC details; stable for ever
	grpc      codes.Code
	http      int
	retryable bool
}

// table has a row for every kind, by number.
//
//nolint:gochecknoglobals // a constant table: Go has no constant arrays.
var table = [kinds]row{
	Internal:           {"internal", "INTERNAL", codes.Internal, http.StatusInternalServerError, false},
	Invalid:            {"invalid", "INVALID", codes.InvalidArgument, http.StatusBadRequest, false},
	NotFound:           {"not-found", "NOT_FOUND", codes.NotFound, http.StatusNotFound, false},
	Exists:             {"exists", "EXISTS", codes.AlreadyExists, http.StatusConflict, false},
	Conflict:           {"conflict", "CONFLICT", codes.FailedPrecondition, http.StatusConflict, false},
	NotLeader:          {"not-leader", "NOT_LEADER", codes.Unavailable, http.StatusServiceUnavailable, true},
	StaleEpoch:         {"stale-epoch", "STALE_EPOCH", codes.Unavailable, http.StatusServiceUnavailable, true},
	StaleRouting:       {"stale-routing", "STALE_ROUTING", codes.Unavailable, http.StatusServiceUnavailable, true},
	OffsetTiered:       {"offset-tiered", "OFFSET_TIERED", codes.Unavailable, http.StatusServiceUnavailable, true},
	OffsetTrimmed:      {"offset-trimmed", "OFFSET_TRIMMED", codes.OutOfRange, http.StatusGone, false},
	OffsetOutOfRange:   {"offset-out-of-range", "OFFSET_OUT_OF_RANGE", codes.OutOfRange, http.StatusRequestedRangeNotSatisfiable, false},
	TooLarge:           {"too-large", "TOO_LARGE", codes.InvalidArgument, http.StatusRequestEntityTooLarge, false},
	Overloaded:         {"overloaded", "OVERLOADED", codes.ResourceExhausted, http.StatusTooManyRequests, true},
	Unavailable:        {"unavailable", "UNAVAILABLE", codes.Unavailable, http.StatusServiceUnavailable, true},
	OutcomeUnknown:     {"outcome-unknown", "OUTCOME_UNKNOWN", codes.Unknown, http.StatusGatewayTimeout, false},
	DeadlineExceeded:   {"deadline-exceeded", "DEADLINE_EXCEEDED", codes.DeadlineExceeded, http.StatusGatewayTimeout, true},
	Canceled:           {"canceled", "CANCELED", codes.Canceled, 499, false},
	Unauthenticated:    {"unauthenticated", "UNAUTHENTICATED", codes.Unauthenticated, http.StatusUnauthorized, false},
	Denied:             {"denied", "DENIED", codes.PermissionDenied, http.StatusForbidden, false},
	UnsupportedVersion: {"unsupported-version", "UNSUPPORTED_VERSION", codes.FailedPrecondition, http.StatusBadRequest, false},
	Corrupt:            {"corrupt", "CORRUPT", codes.DataLoss, http.StatusInternalServerError, false},
	DiskFull:           {"disk-full", "DISK_FULL", codes.ResourceExhausted, http.StatusInsufficientStorage, true},
	DiskPoisoned:       {"disk-poisoned", "DISK_POISONED", codes.Unavailable, http.StatusServiceUnavailable, true},
	SequenceReused:     {"sequence-reused", "SEQUENCE_REUSED", codes.FailedPrecondition, http.StatusConflict, false},
	OutOfOrder:         {"out-of-order", "OUT_OF_ORDER", codes.FailedPrecondition, http.StatusConflict, true},
	UnknownProducer:    {"unknown-producer", "UNKNOWN_PRODUCER", codes.FailedPrecondition, http.StatusConflict, false},
	Diverged:           {"diverged", "DIVERGED", codes.DataLoss, http.StatusConflict, false},
	WrongCluster:       {"wrong-cluster", "WRONG_CLUSTER", codes.FailedPrecondition, http.StatusConflict, false},
	DataDirInUse:       {"data-dir-in-use", "DATA_DIR_IN_USE", codes.FailedPrecondition, http.StatusConflict, false},
}

func (k Kind) row() row {
	if k >= kinds {
		return table[Internal]
	}
	return table[k]
}

// String gives the kind's name, as logged: "offset-trimmed".
func (k Kind) String() string { return k.row().name }

// Reason gives the kind's stable word in REST and gRPC errors: "OFFSET_TRIMMED".
func (k Kind) Reason() string { return k.row().reason }

// GRPC gives the kind's gRPC status code.
func (k Kind) GRPC() codes.Code { return k.row().grpc }

// HTTP gives the kind's HTTP status.
func (k Kind) HTTP() int { return k.row().http }

// Retryable tells whether the same call may succeed later or elsewhere, with nothing done so far.
func (k Kind) Retryable() bool { return k.row().retryable }

// KindOfReason finds the kind whose Reason is the given word; ok is false where there is none.
func KindOfReason(reason string) (kind Kind, ok bool) {
	for k := range kinds {
		if table[k].reason == reason {
			return k, true
		}
	}
	return Internal, false
}
