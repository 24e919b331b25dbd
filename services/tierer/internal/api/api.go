package api

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/tierer/internal/coldread"
)

// Reader reads from the bucket: coldread.Reader.
type Reader interface {
	Fetch(ctx context.Context, id partition.ID, offset partition.Offset, maxBytes int) (coldread.Read, error)
	FindTime(ctx context.Context, id partition.ID, micros int64) (partition.Offset, *manifest.Table, error)
	Table(ctx context.Context, id partition.ID) (*manifest.Table, error)
}

// Views gives the newest View: topology.Follower.
type Views interface {
	View() *topology.View
}

// Limits of a Server.
type Limits struct {
	Reads        int // at a time
	FetchDefault int // bytes, where a request says nothing
	FetchMax     int // bytes
}

// Server answers requests.
type Server struct {
	reader  Reader
	views   Views
	limits  Limits
	metrics *Metrics
	tracer  trace.Tracer
	log     *slog.Logger
	waiting chan struct{} // places for requests that run or wait
	running chan struct{}
	tasks   sync.WaitGroup
}

// New makes a server.
func New(reader Reader, views Views, limits Limits, metrics *Metrics, tracers trace.TracerProvider, log *slog.Logger) *Server {
	return &Server{
		reader: reader, views: views, limits: limits, metrics: metrics, tracer: tracers.Tracer("sq-tierer"), log: log,
		waiting: make(chan struct{}, 2*limits.Reads), running: make(chan struct{}, limits.Reads),
	}
}

// Wait returns when no read is in hand. It is for the time after the last connection.
func (s *Server) Wait() { s.tasks.Wait() }

// Handle implements frame.Handler.
func (s *Server) Handle(ctx context.Context, request *frame.Request) {
	switch request.Message.Which() {
	case wirecapnp.Request_Which_ping:
		_ = request.Reply(func(response wirecapnp.Response) error { // the connection has ended: nobody waits
			response.SetPong()
			return nil
		}, nil)
	case wirecapnp.Request_Which_fetch:
		s.serve(ctx, request, "fetch", s.fetch)
	case wirecapnp.Request_Which_listOffsets:
		s.serve(ctx, request, "list-offsets", s.listOffsets)
	default:
		fail(request, fault.Errorf(fault.Invalid, "a tierer does not serve %s", request.Message.Which()))
	}
}

// serve runs a read on a goroutine of its own, where there is room.
func (s *Server) serve(ctx context.Context, request *frame.Request, call string, read func(context.Context, *frame.Request) error) {
	select {
	case s.waiting <- struct{}{}:
	default:
		s.metrics.requests.WithLabelValues(call, fault.Overloaded.String()).Inc()
		fail(request, &fault.Error{Kind: fault.Overloaded, Op: "read from the bucket: too many reads wait", RetryAfter: overloadedRetry})
		return
	}
	s.tasks.Go(func() {
		defer func() { <-s.waiting }()
		ctx, span := s.tracer.Start(ctx, "tierer "+call, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		var err error
		select {
		case s.running <- struct{}{}:
			err = read(ctx, request)
			<-s.running
		case <-ctx.Done():
			err = fault.Wrap("wait to read from the bucket", context.Cause(ctx))
		}
		result := "ok"
		if err != nil {
			result = fault.KindOf(err).String()
			span.SetStatus(codes.Error, result)
			fail(request, err)
			if fault.Is(err, fault.Corrupt) || fault.Is(err, fault.Internal) {
				s.log.ErrorContext(ctx, "cold read failed", "err", err)
			}
		}
		s.metrics.requests.WithLabelValues(call, result).Inc()
	})
}

// fetch answers, or returns why it could not.
func (s *Server) fetch(ctx context.Context, request *frame.Request) error {
	in, err := request.Message.Fetch()
	if err != nil {
		return unreadable(err)
	}
	id, err := s.partition(in.Topic, in.Partition())
	if err != nil {
		return err
	}
	maxBytes := int(in.MaxBytes())
	if maxBytes == 0 {
		maxBytes = s.limits.FetchDefault
	}
	offset := partition.Offset(in.Offset())
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("partition", id.String()), attribute.Int64("offset", int64(offset)), //nolint:gosec // for people.
	)
	read, err := s.reader.Fetch(ctx, id, offset, min(maxBytes, s.limits.FetchMax))
	if err != nil {
		return fault.Wrap("fetch from the bucket", err)
	}
	bytes := 0
	for _, slice := range read.Body {
		bytes += len(slice)
	}
	s.metrics.bytes.Add(float64(bytes))
	_ = request.Reply(func(response wirecapnp.Response) error { // the connection has ended: nobody waits
		out, err := response.NewFetch()
		if err != nil {
			return err
		}
		out.SetEpoch(uint64(read.Table.Epoch))
		out.SetHighWatermark(uint64(read.Table.TierEnd))
		out.SetLogStart(uint64(read.Table.LogStart))
		out.SetLocalStart(uint64(read.Table.TierEnd))
		out.SetNextOffset(uint64(read.NextOffset))
		out.SetDurability(wirecapnp.Durability_fsyncQuorum)
		return nil
	}, frame.Bytes(read.Body...))
	return nil
}

// listOffsets answers, or returns why it could not.
func (s *Server) listOffsets(ctx context.Context, request *frame.Request) error {
	in, err := request.Message.ListOffsets()
	if err != nil {
		return unreadable(err)
	}
	id, err := s.partition(in.Topic, in.Partition())
	if err != nil {
		return err
	}
	var offset partition.Offset
	var table *manifest.Table
	switch in.Which() {
	case wirecapnp.ListOffsetsRequest_Which_earliest:
		if table, err = s.reader.Table(ctx, id); err == nil {
			offset = table.LogStart
		}
	case wirecapnp.ListOffsetsRequest_Which_latest:
		if table, err = s.reader.Table(ctx, id); err == nil {
			offset = table.TierEnd
		}
	case wirecapnp.ListOffsetsRequest_Which_time:
		offset, table, err = s.reader.FindTime(ctx, id, in.Time())
	default:
		err = fault.Errorf(fault.Invalid, "unknown place %d", in.Which())
	}
	if err != nil {
		return fault.Wrap("find offset in the bucket", err)
	}
	_ = request.Reply(func(response wirecapnp.Response) error { // the connection has ended: nobody waits
		out, err := response.NewListOffsets()
		if err != nil {
			return err
		}
		out.SetOffset(uint64(offset))
		out.SetEpoch(uint64(table.Epoch))
		out.SetHighWatermark(uint64(table.TierEnd))
		out.SetLogStart(uint64(table.LogStart))
		out.SetLocalStart(uint64(table.TierEnd))
		return nil
	}, nil)
	return nil
}

// partition finds the partition that is meant, so that what does not exist costs nothing further on.
func (s *Server) partition(topic func() (batchcapnp.Uuid, error), index uint32) (partition.ID, error) {
	in, err := topic()
	if err != nil {
		return partition.ID{}, unreadable(err)
	}
	id := partition.ID{Topic: partition.UUIDOf(in.Hi(), in.Lo()), Index: partition.Index(index)}
	if _, ok := s.views.View().Partition(id); !ok {
		return partition.ID{}, fault.Errorf(fault.NotFound, "partition %s does not exist", id)
	}
	return id, nil
}

func unreadable(err error) error { return fault.Errorf(fault.Invalid, "read request: %w", err) }

func fail(request *frame.Request, err error) {
	_ = request.Fail(faultwire.ToRemote(err)) // the connection has ended: nobody waits
}
