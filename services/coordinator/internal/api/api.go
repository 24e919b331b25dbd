package api

import (
	"context"
	"errors"
	"runtime/debug"

	"google.golang.org/grpc"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/election"
	"github.com/seedqueue/sq/services/coordinator/internal/operator"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// ReasonStandby is the reason in the error of a coordinator that is not the active one.
const ReasonStandby = "NOT_COORDINATOR"

// Server answers the calls of sq.coordinator.v1.
type Server struct {
	coordinatorv1.UnimplementedCoordinatorServiceServer

	catalog  *catalog.Catalog
	operator *operator.Operator
	reports  *reports.Book
	clock    clock.Clock
}

// New makes a server.
func New(c *catalog.Catalog, o *operator.Operator, r *reports.Book, clk clock.Clock) *Server {
	return &Server{catalog: c, operator: o, reports: r, clock: clk}
}

// Translate is the interceptor that turns errors into statuses, and a panic into an error.
func Translate(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, faultwire.ToStatus(fault.Errorf(fault.Internal, "answer %s: panic: %v\n%s", info.FullMethod, p, debug.Stack())).Err()
		}
	}()
	response, err = next(ctx, request)
	switch {
	case err == nil:
		return response, nil
	case errors.Is(err, election.ErrStandby):
		return nil, faultwire.ToStatusReason(err, ReasonStandby).Err()
	default:
		return nil, faultwire.ToStatus(err).Err()
	}
}
