package batch

import (
	"encoding/binary"
	"fmt"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// controlTraverseBytes bounds what may be read through the pointers of one control batch, so that pointers to the same bytes do not
// multiply the work.
const controlTraverseBytes = 4 * MaxBytes

// BuildControl appends one whole unstamped control batch to dst; fill sets its content. It takes one offset.
func BuildControl(dst []byte, fill func(batchcapnp.Control) error) ([]byte, error) {
	m, seg := capnp.NewSingleSegmentMessage(nil)
	defer m.Release()
	root, err := batchcapnp.NewRootBatch(seg)
	if err != nil {
		return dst, fmt.Errorf("build control batch: %w", err)
	}
	control, err := root.Body().NewControl()
	if err != nil {
		return dst, fmt.Errorf("build control batch: %w", err)
	}
	if err := fill(control); err != nil {
		return dst, fmt.Errorf("build control batch: %w", err)
	}
	bytes, err := m.Marshal()
	if err != nil {
		return dst, fmt.Errorf("build control batch: %w", err)
	}
	if len(bytes) > MaxBytes {
		return dst, &TooLargeError{What: "batch", Size: len(bytes), Limit: MaxBytes}
	}
	if _, err := PeekSize(bytes); err != nil {
		return dst, fmt.Errorf("build control batch: %w", err)
	}
	h := Header{Kind: Control}
	h.put(bytes)
	return append(dst, bytes...), nil
}

// ReadControl checks a whole control batch, both CRCs included, and gives its content, which aliases msg. A kind that this code does not
// know comes back with its number in Which.
func ReadControl(msg []byte) (batchcapnp.Control, error) {
	h, err := ParseHeader(msg)
	if err != nil {
		return batchcapnp.Control{}, err
	}
	if h.Kind != Control {
		return batchcapnp.Control{}, fmt.Errorf("%w: %s, not control", ErrKind, h.Kind)
	}
	if err := CheckBody(msg); err != nil {
		return batchcapnp.Control{}, err
	}
	if word := binary.LittleEndian.Uint64(msg[HeaderBytes:]); word == 0 || word&3 != structPointer {
		return batchcapnp.Control{}, corrupt("pointer to the control struct: %#x", word)
	}
	m, err := capnp.Unmarshal(msg)
	if err != nil {
		return batchcapnp.Control{}, corrupt("control: %w", err)
	}
	m.ResetReadLimit(controlTraverseBytes)
	root, err := batchcapnp.ReadRootBatch(m)
	if err != nil {
		return batchcapnp.Control{}, corrupt("control: %w", err)
	}
	control, err := root.Body().Control()
	if err != nil {
		return batchcapnp.Control{}, corrupt("control: %w", err)
	}
	return control, nil
}
