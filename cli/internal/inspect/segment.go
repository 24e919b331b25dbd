package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// BadError is the first place of a file that cannot be read.
type BadError struct {
	Offset   partition.Offset
	Position int64
	Err      error
}

// Error says where no batch is, and why.
func (b *BadError) Error() string {
	return fmt.Sprintf("no batch at offset %d, position %d: %v", b.Offset, b.Position, b.Err)
}

// Unwrap gives the cause.
func (b *BadError) Unwrap() error { return b.Err }

// frame is a batch in JSON.
type frame struct {
	Offset         uint64 `json:"offset"`
	Next           uint64 `json:"next"`
	Position       int64  `json:"position"`
	Bytes          int    `json:"bytes"`
	RawBytes       uint32 `json:"rawBytes"`
	Epoch          uint64 `json:"epoch"`
	AppendTime     string `json:"appendTime"`
	Records        uint32 `json:"records"`
	Body           string `json:"body"`
	Codec          string `json:"codec"`
	Producer       uint64 `json:"producer,omitempty"`
	BaseSequence   uint64 `json:"baseSequence"`
	DedupeKey      string `json:"dedupeKey,omitempty"`
	MapVersion     uint32 `json:"mapVersion,omitempty"`
	FirstTimestamp string `json:"firstTimestamp,omitempty"`
	MaxTimestamp   string `json:"maxTimestamp,omitempty"`
	Rewritten      bool   `json:"rewritten,omitempty"`
	SegmentBase    uint64 `json:"segmentBase"`
	Chain          string `json:"chain"`
	CommitHint     uint64 `json:"commitHint"`
	PartitionTag   string `json:"partitionTag"`
	BodyCRC        string `json:"bodyCrc"`
	Control        string `json:"control,omitempty"`
	Says           fields `json:"says,omitempty"`
}

// Segment shows the frames of a segment. A *BadError error says where they end too early.
func (p Printer) Segment(ctx context.Context, files vfs.FS, name string) error {
	if !p.JSON {
		if err := p.line(segmentColumns, "OFFSET", "POSITION", "BYTES", "EPOCH", "APPENDED", "COUNT", "CODEC", "PRODUCER", "WHAT"); err != nil {
			return err
		}
	}
	return frames(ctx, files, name, func(s *segment.Scanner) error {
		f := frameOf(s)
		if p.JSON {
			return p.object(f)
		}
		what := f.Body
		if f.Control != "" {
			what = f.Control + "  " + f.Says.text()
		}
		return p.line(segmentColumns, fmt.Sprint(f.Offset), fmt.Sprint(f.Position), fmt.Sprint(f.Bytes), fmt.Sprint(f.Epoch), f.AppendTime,
			fmt.Sprint(f.Records), f.Codec, fmt.Sprint(f.Producer), what)
	})
}

const segmentColumns = "%-12s %-11s %-8s %-6s %-27s %-7s %-5s %-9s %s"

// Raw copies the valid frames of a segment: what `capnp decode` reads, also of a segment that grows.
func (p Printer) Raw(ctx context.Context, files vfs.FS, name string) error {
	return frames(ctx, files, name, func(s *segment.Scanner) error {
		if _, err := p.Out.Write(s.Message()); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		return nil
	})
}

// frames visits the batches of a file, checked, up to its end or to the first bad place.
func frames(ctx context.Context, files vfs.FS, name string, visit func(*segment.Scanner) error) error {
	file, err := files.Open(name, 0)
	if err != nil {
		return err //nolint:wrapcheck // names the file.
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err //nolint:wrapcheck // names the file.
	}
	base, _, named := segment.ParseName(path.Base(name))
	var tag uint64
	head := make([]byte, batch.HeaderBytes)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF { //nolint:errorlint // io.ReaderAt gives it bare.
		return err //nolint:wrapcheck // names the file.
	}
	if h, err := batch.ParseHeader(head[:n]); err == nil {
		tag = h.PartitionTag
		if !named {
			base = partition.Offset(h.SegmentBase)
		}
	}
	var s segment.Scanner
	s.Reset(file, size, base, tag, segment.Place{Offset: base, Unchained: true}, 0)
	for s.Next() {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // the user's own end.
		}
		if err := visit(&s); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), segment.ErrFrame) && pool.IsRecycled(size) {
		return nil // what lies behind the batches is of the file's earlier life
	}
	if s.Err() != nil {
		return &BadError{Offset: s.Place().Offset, Position: s.Place().Position, Err: s.Err()}
	}
	return nil
}

func frameOf(s *segment.Scanner) frame {
	h := s.Header()
	f := frame{
		Offset: h.BaseOffset, Next: h.NextOffset(), Position: s.Position(), Bytes: h.Size, RawBytes: h.RawSize, Epoch: h.Epoch,
		AppendTime: timeText(h.AppendTime), Records: h.RecordCount, Body: h.Kind.String(), Codec: h.Codec.String(),
		Producer: h.ProducerID, BaseSequence: h.BaseSequence, MapVersion: h.MapVersion, Rewritten: h.Flags&batch.FlagRewritten != 0,
		SegmentBase: h.SegmentBase, Chain: hex(h.Chain), CommitHint: h.CommitHint, PartitionTag: hex(h.PartitionTag),
		BodyCRC: fmt.Sprintf("%#08x", h.BodyCRC),
	}
	if !h.DedupeKey.IsZero() {
		f.DedupeKey = fmt.Sprintf("%016x%016x", h.DedupeKey.Hi, h.DedupeKey.Lo)
	}
	if !h.IsControl() {
		f.FirstTimestamp, f.MaxTimestamp = timeText(h.FirstTimestamp), timeText(h.MaxTimestamp)
		return f
	}
	kind, says, err := control(s.Message())
	f.Control, f.Says = kind, says
	if err != nil {
		f.Control, f.Says = "unreadable", fields{{"err", err.Error()}}
	}
	return f
}
