package batch_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// generated reads a message through the generated code; a packed body needs the Reader.
func generated(t *testing.T, msg []byte) (batchcapnp.Batch, []batch.Record) {
	t.Helper()
	m, err := capnp.Unmarshal(msg)
	must(t, err)
	root, err := batchcapnp.ReadRootBatch(m)
	must(t, err)
	var recs batchcapnp.Records
	switch root.Body().Which() {
	case batchcapnp.Batch_body_Which_records:
		recs, err = root.Body().Records()
		must(t, err)
	case batchcapnp.Batch_body_Which_packed:
		records, err := read(&batch.Reader{}, msg)
		must(t, err)
		return root, records
	default:
		t.Fatalf("body is %s", root.Body().Which())
	}
	return root, recordsOf(t, root, recs)
}

// entries gives the entries of a column as the schema defines it.
func entries(t *testing.T, ends capnp.UInt32List, data, nulls []byte) [][]byte {
	t.Helper()
	out := make([][]byte, ends.Len())
	from := uint32(0)
	for i := range out {
		to := ends.At(i)
		if i/8 >= len(nulls) || nulls[i/8]>>(i%8)&1 == 0 {
			out[i] = append([]byte{}, data[from:to]...)
		}
		from = to
	}
	return out
}

func recordsOf(t *testing.T, root batchcapnp.Batch, recs batchcapnp.Records) []batch.Record {
	t.Helper()
	n := int(root.RecordCount())
	list := func(l capnp.UInt32List, err error) capnp.UInt32List { must(t, err); return l }
	data := func(p []byte, err error) []byte { must(t, err); return p }

	out := make([]batch.Record, n)
	values := entries(t, list(recs.ValueEnds()), data(recs.Values()), data(recs.ValueNulls()))
	keys := entries(t, list(recs.KeyEnds()), data(recs.Keys()), data(recs.KeyNulls()))
	names := entries(t, list(recs.HeaderKeyEnds()), data(recs.HeaderKeys()), nil)
	headerValues := entries(t, list(recs.HeaderValueEnds()), data(recs.HeaderValues()), data(recs.HeaderValueNulls()))
	headerEnds := list(recs.HeaderEnds())
	times, err := recs.TimestampDeltas()
	must(t, err)
	delays, err := root.DeliverAt()
	must(t, err)
	priorities, err := root.Priorities()
	must(t, err)
	at := uint32(0)
	for i := range out {
		r := &out[i]
		r.Value, r.Timestamp = values[i], root.FirstTimestamp()
		if len(keys) > 0 {
			r.Key = keys[i]
		}
		if times.Len() > 0 {
			r.Timestamp += times.At(i)
		}
		if headerEnds.Len() > 0 {
			for ; at < headerEnds.At(i); at++ {
				r.Headers = append(r.Headers, batch.RecordHeader{Key: string(names[at]), Value: headerValues[at]})
			}
		}
		if delays.Len() > 0 {
			r.DeliverAt = delays.At(i)
		}
		if priorities.Len() > 0 {
			r.Priority = priorities.At(i)
		}
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGeneratedCodeReadsBuilder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range 100 {
		records := randomRecords(rng)
		for i := range records {
			records[i] = copyRecord(records[i])
		}
		msg := build(t, records, batch.BuildOptions{ProducerID: 5, MapVersion: 6, KeyHashes: round%2 == 0, Codec: batch.Codec(round % 4)})
		root, got := generated(t, msg)
		if !reflect.DeepEqual(records, got) {
			t.Fatalf("round %d: (-want +got):\n%s", round, cmp.Diff(records, got))
		}
		if root.ProducerId() != 5 || root.MapVersion() != 6 || root.Magic() != 0x31425153 {
			t.Fatalf("round %d: header: %v", round, root)
		}
	}
}

// generate builds a message with the generated code; late = allocate the body after the routing columns and out of order.
func generate(t *testing.T, records []batch.Record, late bool) []byte {
	t.Helper()
	m, seg := capnp.NewSingleSegmentMessage(nil)
	root, err := batchcapnp.NewRootBatch(seg)
	must(t, err)
	n := int32(len(records))
	if late {
		hashes, err := root.NewKeyHashes(n)
		must(t, err)
		for i, r := range records {
			hashes.Set(i, batch.KeyHash(r.Key))
		}
		deltas, err := root.NewOffsetDeltas(n)
		must(t, err)
		for i := range records {
			deltas.Set(i, uint32(i))
		}
	}
	recs, err := batchcapnp.NewRecords(seg)
	must(t, err)
	var values, keys, nulls []byte
	highest := records[0].Timestamp
	columns := func() {
		ends, err := recs.NewValueEnds(n)
		must(t, err)
		keyEnds, err := recs.NewKeyEnds(n)
		must(t, err)
		times, err := recs.NewTimestampDeltas(n)
		must(t, err)
		nulls = make([]byte, (n+7)/8)
		for i, r := range records {
			values, keys = append(values, r.Value...), append(keys, r.Key...)
			ends.Set(i, uint32(len(values)))
			keyEnds.Set(i, uint32(len(keys)))
			times.Set(i, r.Timestamp-records[0].Timestamp)
			highest = max(highest, r.Timestamp)
			if r.Value == nil {
				nulls[i/8] |= 1 << (i % 8)
			}
		}
	}
	columns()
	must(t, recs.SetValueNulls(nulls))
	must(t, recs.SetKeys(keys))
	must(t, recs.SetValues(values))
	must(t, root.Body().SetRecords(recs))
	root.SetMagic(0x31425153)
	root.SetFormatVersion(1)
	root.SetRecordCount(uint32(n))
	root.SetLastOffsetDelta(uint32(n - 1))
	root.SetFirstTimestamp(records[0].Timestamp)
	root.SetMaxTimestamp(highest)
	pad := func(n int) int { return (n + 7) &^ 7 }
	root.SetRawSize(uint32(112 + 2*pad(4*len(records)) + 8*len(records) + pad(len(values)) + pad(len(keys)) + pad(len(nulls))))
	msg, err := m.Marshal()
	must(t, err)
	return reseal(msg)
}

func TestReaderReadsGeneratedCode(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var r batch.Reader
	for round := range 100 {
		records := randomRecords(rng)
		for i := range records {
			records[i] = copyRecord(batch.Record{Key: append([]byte{}, records[i].Key...), Value: records[i].Value, Timestamp: records[i].Timestamp})
		}
		got, err := read(&r, generate(t, records, round%2 == 0))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if !reflect.DeepEqual(records, got) {
			t.Fatalf("round %d: (-want +got):\n%s", round, cmp.Diff(records, got))
		}
	}
}

// The packed segment is what the document says: with a framing before it, it is a message whose root is Records.
func TestPackedSegmentIsAMessage(t *testing.T) {
	var records []batch.Record
	for range 100 {
		records = append(records, batch.Record{Value: []byte("the same again")})
	}
	msg := build(t, records, batch.BuildOptions{Codec: batch.S2})
	plain := build(t, records, batch.BuildOptions{})
	h, err := batch.ParseHeader(msg)
	must(t, err)
	m, err := capnp.Unmarshal(plain)
	must(t, err)
	root, err := batchcapnp.ReadRootBatch(m)
	must(t, err)
	recs, err := root.Body().Records()
	must(t, err)
	// The columns lie behind header and pointer section; in the segment one root pointer comes before the same bytes.
	segment := append([]byte{0, 0, 0, 0, 0, 0, 13, 0}, plain[batch.MinBytes:]...)
	if len(segment) != int(h.RawSize) {
		t.Fatalf("segment has %d bytes, raw size is %d", len(segment), h.RawSize)
	}
	framed := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(segment)/8))
	alone, err := capnp.Unmarshal(append(framed, segment...))
	must(t, err)
	again, err := batchcapnp.ReadRootRecords(alone)
	must(t, err)
	if diff := cmp.Diff(recordsOf(t, root, recs), recordsOf(t, root, again)); diff != "" {
		t.Error(diff)
	}
}

// `capnp decode` prints a sequence of batches, as it does a closed segment.
func TestCapnpDecode(t *testing.T) {
	program, err := exec.LookPath("capnp")
	if err != nil {
		t.Skip("SKIPPED: the capnp program is missing: apt-get install capnproto")
	}
	body := build(t, []batch.Record{{Value: []byte("first value")}, {Key: []byte("a key")}}, batch.BuildOptions{KeyHashes: true})
	body = append(body, build(t, []batch.Record{{Value: bytes.Repeat([]byte("again "), 100)}}, batch.BuildOptions{Codec: batch.Zstd})...)
	body, err = batch.BuildControl(body, func(c batchcapnp.Control) error {
		trim, err := c.NewTrimTo()
		trim.SetOffset(4711)
		return err
	})
	must(t, err)
	at := 0
	for msg, err := range batch.Each(body) {
		must(t, err)
		batch.Stamp(msg, batch.Stamps{Epoch: 3, BaseOffset: uint64(at), Chain: 77})
		at++
	}
	// The annotations of go.capnp come with the library, whose folder has them under std.
	std, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "capnproto.org/go/capnp/v3").Output()
	must(t, err)
	cmd := exec.Command(program, "decode", "-I"+filepath.Join(strings.TrimSpace(string(std)), "std"), "../capnp/batch.capnp", "Batch")
	cmd.Stdin = bytes.NewReader(body)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("capnp decode: %v\n%s", err, out)
	}
	text := string(out)
	for _, want := range []string{`values = "first value"`, `keys = "a key"`, "codec = zstd", "trimTo = (offset = 4711)", "epoch = 3", "baseOffset = 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("capnp decode does not print %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "magic = 826429779"); n != 3 {
		t.Errorf("capnp decode prints %d batches of 3", n)
	}
}

func TestControl(t *testing.T) {
	msg, err := batch.BuildControl([]byte("x"), func(c batchcapnp.Control) error {
		start, err := c.NewEpochStart()
		if err != nil {
			return err
		}
		start.SetEpoch(9)
		members, err := start.NewMembers(3)
		if err != nil {
			return err
		}
		members.At(2).SetBroker(12)
		return nil
	})
	must(t, err)
	msg = msg[1:]
	batch.Stamp(msg, batch.Stamps{Epoch: 9, BaseOffset: 41, SegmentBase: 41})
	h, err := batch.ParseHeader(msg)
	must(t, err)
	if !h.IsControl() || h.RecordCount != 0 || h.NextOffset() != 42 || h.Size != len(msg) {
		t.Fatalf("header: %+v", h)
	}
	control, err := batch.ReadControl(msg)
	must(t, err)
	start, err := control.EpochStart()
	must(t, err)
	members, err := start.Members()
	must(t, err)
	if start.Epoch() != 9 || members.Len() != 3 || members.At(2).Broker() != 12 {
		t.Errorf("content: %v", control)
	}
	if err := (&batch.Reader{}).Reset(msg); !isKind(err) {
		t.Errorf("a Reader takes a control batch: %v", err)
	}
	if _, err := batch.ReadControl(build(t, []batch.Record{{}}, batch.BuildOptions{})); !isKind(err) {
		t.Errorf("ReadControl takes records: %v", err)
	}
	if err := h.CheckPublish(); !isKind(err) {
		t.Errorf("a producer may publish a control batch: %v", err)
	}
	if _, err := batch.BuildControl(nil, func(batchcapnp.Control) error { return batch.ErrEmpty }); err == nil {
		t.Error("an error of fill is lost")
	}
}
