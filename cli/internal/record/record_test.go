package record_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seedqueue/sq/cli/internal/record"
	"github.com/seedqueue/sq/sdk/go/sq"
)

func write(t *testing.T, format string, records ...sq.Record) string {
	t.Helper()
	var out bytes.Buffer
	w, err := record.NewWriter(&out, "orders", format)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		w.Write(&records[i])
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

func TestJSONReadsBackWhatItWrote(t *testing.T) {
	for _, r := range []sq.Record{
		{},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: []byte("v \"\\ \r\n\t\x00\x1f\x7f ü 漢 \u2028")},
		{Key: []byte{0xff}, Value: []byte{0xfe, 0}, Headers: []sq.Header{{Key: "a", Value: []byte("b")}, {Key: "a"}, {Key: "", Value: []byte{0xff}}}},
	} {
		r.Timestamp, r.Partition, r.Offset = at, 3, 1<<60
		line := write(t, record.JSON, r)
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Errorf("%q is not one line", line)
		}
		got, err := record.ReadJSON([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(r, got, cmpopts.IgnoreUnexported(sq.Record{}), cmpopts.IgnoreFields(sq.Record{}, "Partition", "Offset")); diff != "" {
			t.Errorf("%s (-wrote +read):\n%s", line, diff)
		}
	}
}

// A header's name may hold any bytes; the line must be JSON all the same.
func TestJSONOfAnyBytesIsJSON(t *testing.T) {
	for _, name := range []string{"\xff", "a\xc3", "\xe6\xbc", "\xe6\xbc\xa2", "\xed\xa0\x80", "\xf4\x90\x80\x80"} {
		line := write(t, record.JSON, sq.Record{Headers: []sq.Header{{Key: name}}})
		got, err := record.ReadJSON([]byte(line))
		if want := strings.ToValidUTF8(name, "\ufffd"); err != nil || strings.Trim(got.Headers[0].Key, "\ufffd") != strings.Trim(want, "\ufffd") {
			t.Errorf("%q: %q, %v", name, line, err)
		}
	}
}

func TestReadJSON(t *testing.T) {
	for in, want := range map[string]sq.Record{
		`{"value":"a"}`:                     {Value: []byte("a")},
		`{"value":null}`:                    {},
		`{"value":{"a": [1, 2]},"key":"k"}`: {Key: []byte("k"), Value: []byte(`{"a": [1, 2]}`)},
		`{"value":12}`:                      {Value: []byte("12")},
		`{"value":"","headers":{"x":"1","y":null,"x":""}}`:        {Value: []byte{}, Headers: []sq.Header{{Key: "x", Value: []byte("1")}, {Key: "y"}, {Key: "x", Value: []byte{}}}},
		`{"valueData":"//4="}`:                                    {Value: []byte{0xff, 0xfe}},
		`{"value":"a","timestamp":"2026-01-02T03:04:05.678901Z"}`: {Value: []byte("a"), Timestamp: at},
	} {
		got, err := record.ReadJSON([]byte(in))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(sq.Record{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", in, err, diff)
		}
	}
	for _, in := range []string{
		``, `1`, `"a"`, `{}`, `{"key":"k"}`, `{"value":"a"`, `{"value":"a"} {}`, `{"value":"a","colour":1}`, `{"value":"a","valueData":"AA=="}`,
		`{"value":"a","headers":[{"value":"x"}]}`, `{"value":"a","headers":{"x":1}}`, `{"value":"a","timestamp":"noon"}`, `{"valueData":"!"}`,
		"{\"value\":\"\xff\"}", `{"value":"a","key":"k","keyData":"AA=="}`,
	} {
		if got, err := record.ReadJSON([]byte(in)); err == nil {
			t.Errorf("%s was read as %+v", in, got)
		}
	}
}

func TestFormats(t *testing.T) {
	r := sq.Record{Partition: 2, Offset: 7, Key: []byte("k"), Value: []byte("a\nb"), Headers: []sq.Header{{Key: "x", Value: []byte("1")}, {Key: "y"}}}
	for format, want := range map[string]string{
		record.Lines: "a\nb\n",
		record.Raw:   "a\nb",
		`{topic}/{partition}@{offset}\t{key}={value} [{headers}] {{x}}`: "orders/2@7\tk=a\nb [x=1 y=] {x}\n",
	} {
		if got := write(t, format, r); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
	for _, format := range []string{"", "yaml", "{colour}", "{value", "{topic} {"} {
		if _, err := record.NewWriter(nil, "t", format); err == nil || !strings.Contains(err.Error(), "{partition}") {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func TestLinesAllocateNothing(t *testing.T) {
	var out bytes.Buffer
	w, err := record.NewWriter(&out, "t", record.Raw)
	if err != nil {
		t.Fatal(err)
	}
	r := &sq.Record{Value: []byte("x")}
	if n := testing.AllocsPerRun(1000, func() { w.Write(r) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}
