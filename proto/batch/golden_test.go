package batch_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// The files of testdata/v1 are what version 1 is, for ever: nothing overwrites one. -create-golden writes those that are missing.
var createGolden = flag.Bool("create-golden", false, "write golden files that do not exist yet")

// described is what a golden file holds, as JSON beside it.
type described struct {
	Header    batch.Header
	NextChain uint64
	Offsets   []uint64       `json:",omitempty"`
	KeyHashes []uint64       `json:",omitempty"`
	Records   []batch.Record `json:",omitempty"` // null and "" differ in JSON, too
	Control   string         `json:",omitempty"`
}

func goldens(t *testing.T) map[string][]byte {
	records := func(n int, change func(i int, r *batch.Record)) []batch.Record {
		out := make([]batch.Record, n)
		for i := range out {
			out[i] = batch.Record{Value: fmt.Appendf(nil, "value %d of a golden file", i), Timestamp: 1_796_040_000_000_000}
			if change != nil {
				change(i, &out[i])
			}
		}
		return out
	}
	keys := records(5, func(i int, r *batch.Record) { r.Key = fmt.Appendf(nil, "key-%d", i%2) })
	headers := records(4, func(i int, r *batch.Record) {
		r.Timestamp += int64(i * i)
		if i > 0 {
			r.Headers = []batch.RecordHeader{{Key: "trace", Value: []byte("t1")}, {Key: "empty", Value: []byte{}}, {Key: "null"}}
		}
	})
	nulls := []batch.Record{
		{Timestamp: 5},
		{Key: []byte{}, Value: []byte{}, Timestamp: 4},
		{Key: []byte("tombstone"), Timestamp: 6},
		{Value: []byte("no key"), Timestamp: -7},
	}
	routing := records(3, func(i int, r *batch.Record) {
		r.Key, r.DeliverAt, r.Priority = []byte{byte(i)}, int64(i)*1000, uint8(i)
	})
	files := map[string][]byte{
		"plain":   build(t, records(3, nil), batch.BuildOptions{}),
		"keys":    build(t, keys, batch.BuildOptions{ProducerID: 42, BaseSequence: 100, MapVersion: 2}),
		"headers": build(t, headers, batch.BuildOptions{}),
		"nulls":   build(t, nulls, batch.BuildOptions{DedupeKey: batch.DedupeKeyOf("order-1")}),
		"routing": build(t, routing, batch.BuildOptions{KeyHashes: true}),
		"deltas":  build(t, keys, batch.BuildOptions{OffsetDeltas: []uint32{0, 1, 5, 6, 9}}),
		"s2":      build(t, records(50, nil), batch.BuildOptions{Codec: batch.S2}),
		"lz4":     build(t, records(50, nil), batch.BuildOptions{Codec: batch.LZ4}),
		"zstd":    build(t, records(50, nil), batch.BuildOptions{Codec: batch.Zstd}),
	}
	var err error
	files["control"], err = batch.BuildControl(nil, func(c batchcapnp.Control) error {
		seal, err := c.NewSeal()
		if err != nil {
			return err
		}
		seal.SetBase(100)
		seal.SetEnd(4711)
		seal.SetSize(65536)
		return seal.SetSha256(bytes.Repeat([]byte{0xab}, 32))
	})
	must(t, err)
	for _, msg := range files {
		batch.Stamp(msg, batch.Stamps{
			SegmentBase: 1000, BaseOffset: 1234, Epoch: 7, AppendTime: 1_796_040_001_000_000,
			Chain: 0x0123456789abcdef, CommitHint: 1200, PartitionTag: batch.PartitionTag(1, 2, 3),
		})
	}
	return files
}

func describe(t *testing.T, msg []byte) []byte {
	t.Helper()
	h, err := batch.ParseHeader(msg)
	must(t, err)
	d := described{Header: h, NextChain: batch.NextChain(msg)}
	if h.IsControl() {
		control, err := batch.ReadControl(msg)
		must(t, err)
		d.Control = control.String()
	} else {
		var r batch.Reader
		d.Records, err = read(&r, msg)
		must(t, err)
		for i := range r.Len() {
			d.Offsets = append(d.Offsets, r.Offset(i))
			if hash, ok := r.KeyHash(i); ok {
				d.KeyHashes = append(d.KeyHashes, hash)
			}
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	must(t, err)
	return append(text, '\n')
}

func TestGolden(t *testing.T) {
	for name, built := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			golden := func(file string, content []byte) []byte {
				path := filepath.Join("testdata", "v1", file)
				stored, err := os.ReadFile(path)
				if os.IsNotExist(err) && *createGolden {
					must(t, os.WriteFile(path, content, 0o644))
					return content
				}
				must(t, err)
				return stored
			}
			stored := golden(name+".batch", built)
			if diff := cmp.Diff(string(golden(name+".json", describe(t, stored))), string(describe(t, stored))); diff != "" {
				t.Errorf("what the file says differs (-want +got):\n%s", diff)
			}
			// What a codec makes may change with its library; everything else must come out the same.
			h, err := batch.ParseHeader(stored)
			must(t, err)
			if h.Codec == batch.None && !bytes.Equal(stored, built) {
				t.Error("Builder makes other bytes than version 1 has")
			}
			if h.Codec != batch.None && name != h.Codec.String() {
				t.Errorf("the file is packed with %s", h.Codec)
			}
		})
	}
}
