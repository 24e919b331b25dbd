package node

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
)

// drainTimeout bounds how long a stop waits for what is in flight.
const drainTimeout = 10 * time.Second

// FrameServer serves the data plane.
type FrameServer interface {
	// Serve serves until Shutdown has ended, or cuts all off when ctx ends.
	Serve(ctx context.Context, listener net.Listener) error
	// Shutdown lets what is in flight be answered until ctx ends.
	Shutdown(ctx context.Context) error
}

// ServeFrames serves until ctx ends and then drains, or cuts all off where it ended for a failure (doc.go 4). The error is that of Serve.
func (d Deps) ServeFrames(ctx context.Context, server FrameServer, listener net.Listener) error {
	served := make(chan error, 1)
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	go func() { served <- server.Serve(hard, listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if lifecycle.Failure(ctx) != nil {
		cut()
		return <-served
	}
	drain, cancel := context.WithTimeout(hard, drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		d.Log.Warn("what was in flight is cut off", "timeout", drainTimeout, "err", err)
	}
	return <-served
}

// ServeGRPC serves until ctx ends and then drains, or cuts all off where it ended for a failure (doc.go 4).
func (d Deps) ServeGRPC(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fault.Wrap("serve gRPC", err)
	case <-ctx.Done():
	}
	if lifecycle.Failure(ctx) != nil {
		server.Stop()
		return fault.Wrap("serve gRPC", <-served)
	}
	drained := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(drained)
	}()
	timer := d.Clock.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C():
		server.Stop()
		<-drained
	}
	return fault.Wrap("serve gRPC", <-served)
}
