package faultwire

import (
	"errors"
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// messageBytesMax bounds the text of an error on the wire.
const messageBytesMax = 4096

// ToCapnp writes err into a wire error.
func ToCapnp(err error, out wirecapnp.Error) error {
	text := err.Error()
	if len(text) > messageBytesMax {
		text = text[:messageBytesMax]
	}
	out.SetKind(wirecapnp.ErrorKind(fault.KindOf(err)))
	if f, ok := errors.AsType[*fault.Error](err); ok {
		out.SetRetryAfterMillis(uint32(min(f.RetryAfter.Milliseconds(), 1<<31)))
		out.SetOffset(f.Offset)
		out.SetEpoch(f.Epoch)
	}
	if err := out.SetText(text); err != nil {
		return fmt.Errorf("set error text: %w", err)
	}
	return nil
}

// FromCapnp reads a wire error. It never returns nil.
func FromCapnp(in wirecapnp.Error) *fault.Error {
	text, err := in.Text()
	if err != nil {
		text = "unreadable error text"
	}
	kind := fault.Kind(in.Kind())
	if kind.String() == fault.Internal.String() {
		kind = fault.Internal
	}
	return &fault.Error{
		Kind:       kind,
		Op:         text,
		RetryAfter: time.Duration(in.RetryAfterMillis()) * time.Millisecond,
		Offset:     in.Offset(),
		Epoch:      in.Epoch(),
	}
}
