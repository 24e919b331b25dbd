package frame

import (
	"encoding/binary"
	"fmt"
	"time"

	"capnproto.org/go/capnp/v3"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// builder is a pooled message to write.
type builder struct{ msg capnp.Message }

func (p *Pool) builder() (*builder, *capnp.Segment, error) {
	b, ok := p.builders.Get().(*builder)
	if !ok {
		b = &builder{}
	}
	segment, err := b.msg.Reset(capnp.SingleSegment(nil))
	if err != nil {
		return nil, nil, fmt.Errorf("make message: %w", err)
	}
	return b, segment, nil
}

func (p *Pool) release(b *builder) {
	b.msg.Release()
	p.builders.Put(b)
}

// appendTo appends the message in stream framing.
func (b *builder) appendTo(to []byte) ([]byte, error) {
	segment, err := b.msg.Segment(0)
	if err != nil {
		return to, fmt.Errorf("marshal message: %w", err)
	}
	data := segment.Data()
	to = binary.LittleEndian.AppendUint32(to, 0)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(data)/8))
	return append(to, data...), nil
}

// response builds a response.
func (p *Pool) response(fill func(wirecapnp.Response) error) (*builder, wirecapnp.Response, error) {
	b, segment, err := p.builder()
	if err != nil {
		return nil, wirecapnp.Response{}, err
	}
	response, err := wirecapnp.NewRootResponse(segment)
	if err == nil {
		err = fill(response)
	}
	if err != nil {
		p.release(b)
		return nil, wirecapnp.Response{}, fmt.Errorf("build response: %w", err)
	}
	return b, response, nil
}

// request builds a request.
func (p *Pool) request(fill func(wirecapnp.Request) error) (*builder, wirecapnp.Request, error) {
	b, segment, err := p.builder()
	if err != nil {
		return nil, wirecapnp.Request{}, err
	}
	request, err := wirecapnp.NewRootRequest(segment)
	if err == nil {
		err = fill(request)
	}
	if err != nil {
		p.release(b)
		return nil, wirecapnp.Request{}, fmt.Errorf("build request: %w", err)
	}
	return b, request, nil
}

// millisUntil gives what is left of a deadline, at least 1.
func millisUntil(deadline time.Time) uint32 {
	return uint32(min(max(deadline.Sub(now()).Milliseconds(), 1), 1<<31))
}

func writeTrace(request wirecapnp.Request, span trace.SpanContext) {
	traceID, spanID := span.TraceID(), span.SpanID()
	request.SetTraceIdHi(binary.BigEndian.Uint64(traceID[:8]))
	request.SetTraceIdLo(binary.BigEndian.Uint64(traceID[8:]))
	request.SetSpanId(binary.BigEndian.Uint64(spanID[:]))
	request.SetTraceFlags(uint8(span.TraceFlags()))
}
