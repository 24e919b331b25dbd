package batch_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
)

// A gap spans offsets, has no record, is the smallest message, and has these bytes for ever.
func TestGap(t *testing.T) {
	s := batch.Stamps{SegmentBase: 3, BaseOffset: 7, Epoch: 2, AppendTime: 9, Chain: 11, CommitHint: 5, PartitionTag: 13}
	msg := batch.BuildGap(nil, s, 41)
	var r batch.Reader
	if err := r.Reset(msg); err != nil {
		t.Fatal(err)
	}
	h := r.Header()
	if r.Len() != 0 || !h.IsGap() || h.IsControl() || h.NextOffset() != 7+42 || h.Stamps() != s || len(msg) != batch.MinBytes {
		t.Errorf("%d records, %d bytes, %+v", r.Len(), len(msg), h)
	}
	if h.CheckPublish() == nil {
		t.Error("a producer may send a gap")
	}
	const body = "fcffffff00000000" + "0000000000000000" + "0000000000000000" + "0000000000000000" + "0000000000000000"
	if got := hex.EncodeToString(msg[batch.HeaderBytes:]); got != body {
		t.Errorf("body %s", got)
	}
	if got := hex.EncodeToString(msg[16:24]); got != "5351423101000100" {
		t.Errorf("magic, version, flags: %s", got)
	}
	var some batch.Builder
	if err := some.Add(batch.Record{}); err != nil {
		t.Fatal(err)
	}
	if least, err := some.Build(nil, batch.BuildOptions{}); err != nil || len(least) <= len(msg) {
		t.Errorf("the smallest batch with a record has %d bytes: %v", len(least), err)
	}
}

// No records without the flag, and no body in a gap.
func TestGapRefuses(t *testing.T) {
	gap := batch.BuildGap(nil, batch.Stamps{}, 0)
	for name, spoil := range map[string]func(m []byte){
		"without the flag": func(m []byte) { m[22] = 0 },
		"with a raw size":  func(m []byte) { m[148] = 112 },
		"with a body":      func(m []byte) { m[176] = 0 },
	} {
		bad := bytes.Clone(gap)
		spoil(bad)
		reseal(bad)
		var r batch.Reader
		if err := r.Reset(bad); !errors.Is(err, batch.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A widened batch has its records where they were and spans more.
func TestWiden(t *testing.T) {
	var b batch.Builder
	for range 3 {
		if err := b.Add(batch.Record{Key: []byte("k"), Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	batch.Widen(msg, 9)
	var r batch.Reader
	if err := r.Reset(msg); err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); r.Len() != 3 || r.Offset(2) != 2 || h.NextOffset() != 10 || h.Flags != batch.FlagRewritten {
		t.Errorf("%+v", h)
	}
}
