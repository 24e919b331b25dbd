package etcdstore

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

// readError maps an error of a call that changes nothing which the caller would have to resolve.
func readError(op string, err error) error {
	if err == nil {
		return nil
	}
	if refusal := refused(op, err); refusal != nil {
		return refusal
	}
	return topology.Unavailable(op, err)
}

// writeError maps an error of a Txn: what is not a refusal may have been applied.
func writeError(op string, err error) error {
	if refusal := refused(op, err); refusal != nil {
		return refusal
	}
	return topology.Unknown(op, err)
}

// refused maps an answer by which etcd definitely did nothing; nil where err is none.
func refused(op string, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%s: %w", op, topology.ErrCompacted)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%s: %w", op, topology.ErrLeaseNotFound)
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.OutOfRange:
		return &fault.Error{Kind: fault.Invalid, Op: op, Err: err}
	case codes.ResourceExhausted: // no space, too many requests
		return &fault.Error{Kind: fault.Overloaded, Op: op, Err: err}
	case codes.PermissionDenied:
		return &fault.Error{Kind: fault.Denied, Op: op, Err: err}
	case codes.Unauthenticated:
		return &fault.Error{Kind: fault.Unauthenticated, Op: op, Err: err}
	default:
		return nil
	}
}

func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
