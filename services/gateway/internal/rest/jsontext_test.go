package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seedqueue/sq/libs/fault"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// A json value is stored as the very text that was sent.
func TestJSONValuesKeepTheirText(t *testing.T) {
	for _, value := range []string{
		`9007199254740993`, `1e400`, `null`, `true`, `"a \"quoted\" \u00e9 text"`, `[]`, `{}`, `{"b":1,"a":[1, 2,  {"json":3}]}`, "[1,\n 2]", `"<&>"`,
	} {
		record := `{ "key" : "k", "j\u0073on" : ` + value + ` , "headers":[{"name":"json","text":"x"}]}`
		data, err := prepareJSON([]byte(record), recordPath, 20)
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		var one datav1.NewRecord
		if err := protojson.Unmarshal(data, &one); err != nil {
			t.Fatalf("%s: %v in %s", value, err, data)
		}
		if one.GetText() != value || one.GetKey() != "k" || one.GetHeaders()[0].GetText() != "x" {
			t.Errorf("%s: became %v", value, &one)
		}
		data, err = prepareJSON([]byte(`{"topic":"json","records":[`+record+`,{"text":"json"},`+record+`],"idempotencyKey":"json"}`), publishPath, 20)
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		var all datav1.PublishRequest
		if err := protojson.Unmarshal(data, &all); err != nil {
			t.Fatalf("%s: %v in %s", value, err, data)
		}
		if len(all.GetRecords()) != 3 || all.GetRecords()[0].GetText() != value || all.GetRecords()[1].GetText() != "json" || all.GetRecords()[2].GetText() != value {
			t.Errorf("%s: became %v", value, &all)
		}
	}
}

func TestTwoValuesInOneRecordAreRefused(t *testing.T) {
	for _, record := range []string{`{"json":1,"text":"x"}`, `{"text":"x","json":1}`, `{"json":1,"json":2}`, `{"data":"","json":1}`} {
		data, err := prepareJSON([]byte(record), recordPath, 20)
		if err != nil {
			t.Fatal(err)
		}
		var one datav1.NewRecord
		if protojson.Unmarshal(data, &one) == nil {
			t.Errorf("%s: became %v", record, &one)
		}
	}
}

func TestDepthAndEncodingAreChecked(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := prepareJSON([]byte(nest(21)), nil, 20); err != nil {
		t.Errorf("depth 20: %v", err)
	}
	for _, bad := range []string{nest(22), nest(100_000), strings.Repeat(`{"a":`, 100_000), "\"\xff\""} {
		if _, err := prepareJSON([]byte(bad), publishPath, 20); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
}

// Rewriting changes nothing but the members it means, and what was JSON stays JSON.
func FuzzPrepareJSON(f *testing.F) {
	for _, seed := range []string{
		`{"records":[{"json":{"a":[1]}},{"text":"x"}]}`, `{"records":[{"json":1,"json":2}]}`, `[1,2,{"json":null}]`, `{"records":{"":{"json":1}}}`, `{"a":"\\\""}`, `{,}`, `"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := prepareJSON([]byte(text), publishPath, 100)
		if err != nil {
			return
		}
		if json.Valid([]byte(text)) != json.Valid(out) {
			t.Fatalf("%q became %q", text, out)
		}
		if !strings.Contains(text, "json") && !strings.Contains(text, `\u`) && string(out) != text {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
