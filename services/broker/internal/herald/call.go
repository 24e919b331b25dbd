package herald

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
)

// send gives a report to the active coordinator. After an error its connection is made anew: gRPC's own waits are longer than a failover.
func (h *Herald) send(ctx context.Context, addr string, report *coordinatorv1.ReportRequest) error {
	client, err := h.coordinator(addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err = client.Report(ctx, report); err != nil {
		h.hangUp()
		return fault.Wrap("report to the coordinator", faultwire.FromGRPC(err))
	}
	return nil
}

func (h *Herald) coordinator(addr string) (coordinatorv1.CoordinatorServiceClient, error) {
	if addr == "" {
		h.hangUp()
		return nil, fault.Errorf(fault.Unavailable, "find the coordinator: none is active")
	}
	if h.conn == nil || h.addr != addr {
		h.hangUp()
		conn, err := grpc.NewClient("passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return h.cfg.Network.Dial(ctx, addr) }),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
			grpc.WithDisableServiceConfig(),
		)
		if err != nil {
			return nil, fmt.Errorf("connect to coordinator %s: %w", addr, err)
		}
		h.conn, h.addr = conn, addr
	}
	return coordinatorv1.NewCoordinatorServiceClient(h.conn), nil
}

// hangUp ends the connection, if there is one.
func (h *Herald) hangUp() {
	if h.conn != nil {
		_ = h.conn.Close() // no call is under way
		h.conn = nil
	}
}
