package sealed

import (
	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// FillSealControl makes a control batch say that a segment is sealed.
func FillSealControl(c batchcapnp.Control, s Seal) error {
	out, err := c.NewSeal()
	if err != nil {
		return err
	}
	return FillSeal(out, s)
}

// FillCompact makes a control batch say what a sealed segment becomes.
func FillCompact(c batchcapnp.Control, s Seal) error {
	out, err := c.NewCompact()
	if err != nil {
		return err
	}
	out.SetBase(uint64(s.Base))
	out.SetEnd(uint64(s.End))
	out.SetSize(s.Size)
	return out.SetSha256(s.SHA256[:])
}

// FillCommit makes a control batch put segments into the tier table.
func FillCommit(c batchcapnp.Control, segments []Segment) error {
	out, err := c.NewTierCommit()
	if err != nil {
		return err
	}
	list, err := out.NewSegments(int32(len(segments)))
	if err != nil {
		return err
	}
	for i, s := range segments {
		if err := FillSegment(list.At(i), s); err != nil {
			return err
		}
	}
	return nil
}

// FillDrop makes a control batch take keys out of the table; notBefore is in microseconds since 1970.
func FillDrop(c batchcapnp.Control, keys []string, notBefore int64) error {
	out, err := c.NewTierDrop()
	if err != nil {
		return err
	}
	out.SetNotBefore(notBefore)
	return fillTexts(out.NewKeys, keys)
}

// FillCollect makes a control batch forget keys for ever.
func FillCollect(c batchcapnp.Control, keys []string) error {
	out, err := c.NewTierCollect()
	if err != nil {
		return err
	}
	return fillTexts(out.NewKeys, keys)
}

// FillTrim makes a control batch move the log start.
func FillTrim(c batchcapnp.Control, to partition.Offset) error {
	out, err := c.NewTrimTo()
	if err != nil {
		return err
	}
	out.SetOffset(uint64(to))
	return nil
}

func fillTexts(list func(int32) (capnp.TextList, error), texts []string) error {
	out, err := list(int32(len(texts)))
	if err != nil {
		return err
	}
	for i, text := range texts {
		if err := out.Set(i, text); err != nil {
			return err
		}
	}
	return nil
}
