package rest

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

type jsonRecord struct {
	Partition    int
	Offset       string
	Key, KeyData *string
	Text, Data   *string
	Headers      []struct{ Name, Text string }
}

type jsonFetch struct {
	Records    []jsonRecord
	NextCursor string
	EndReached bool
}

func TestTopicsOverREST(t *testing.T) {
	w := newWorld(t, 1, nil)
	created := w.do(t, "POST", "/v1/topics", `{"topic":"fresh","partitions":2}`)
	topic := unjson[struct {
		Topic, Namespace, ID string
		Partitions           int
		PartitionStates      []struct {
			Partition int
			Active    bool
			Leader    string
		}
	}](t, created.body)
	if created.code != 200 || topic.Topic != "fresh" || topic.Partitions != 2 || len(topic.PartitionStates) != 2 || !topic.PartitionStates[1].Active ||
		topic.PartitionStates[1].Leader != "1" {
		t.Errorf("create: %d %s", created.code, created.body)
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		has                string
	}{
		{"POST", "/v1/topics", `{"topic":"fresh"}`, 409, "EXISTS"},
		{"GET", "/v1/topics/fresh", "", 200, `"fresh"`},
		{"GET", "/v1/namespaces/default/topics/fresh", "", 200, `"fresh"`},
		{"GET", "/v1/topics?pageSize=5", "", 200, `"fresh"`},
		{"PATCH", "/v1/topics/fresh?updateMask=retention", `{"retention":{"bytes":"5"}}`, 200, `"fresh"`},
		{"PATCH", "/v1/topics/fresh", `{"etag":"old"}`, 409, "CONFLICT"},
		{"POST", "/v1/topics/fresh:seal", `{}`, 200, `"sealed"`},
		{"POST", "/v1/topics/fresh:trim", `{"partition":0,"beforeOffset":"0"}`, 200, `"logStart"`},
		{"POST", "/v1/topics/fresh:trim", `{}`, 400, "INVALID"},
		{"DELETE", "/v1/topics/fresh", "", 200, "{}"},
		{"GET", "/v1/topics/fresh", "", 404, "NOT_FOUND"},
		{"GET", "/v1/namespaces", "", 200, `"default"`},
		{"GET", "/v1/cluster", "", 200, `"clusterId"`},
		{"GET", "/v1/brokers", "", 200, `"brokers"`},
		{"GET", "/v1/brokers/1:canStop", "", 200, `"safe":true`},
		{"POST", "/v1/brokers/2:drain", `{}`, 200, `"BROKER_STATE_DRAINING"`},
		{"POST", "/v1/brokers/2:undrain", `{}`, 200, `"BROKER_STATE_LIVE"`},
		{"POST", "/v1/brokers/2:decommission", `{}`, 200, `"BROKER_STATE_DECOMMISSIONING"`},
		{"POST", "/v1/brokers/2:recommission", `{}`, 200, `"BROKER_STATE_LIVE"`},
		{"GET", "/v1/cluster/moves", "", 200, `"started":true`},
		{"GET", "/v1/cluster/recoveries", "", 200, `"all of it"`},
		{"POST", "/v1/topics/orders:reassign", `{"brokers":["1","2","3"]}`, 200, `"to":["1",`},
		{"POST", "/v1/topics/orders/partitions/1:transferLeader", `{"broker":"2"}`, 200, `"leader":"2"`},
		{"POST", "/v1/topics/orders/partitions/1:forceRecover", `{}`, 200, `"done":false`},
		{"GET", "/livez", "", 200, "live"},
		{"GET", "/readyz", "", 200, "ready"},
		{"GET", "/version", "", 200, "test"},
		{"GET", "/", "", 302, ""},
		{"GET", "/metrics", "", 404, "NOT_FOUND"},
	} {
		// protojson puts spaces where it likes, another way in each build.
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := w.do(t, c.method, c.path, c.body); got.code != c.code || !strings.Contains(bare(got.body), bare(c.has)) {
			t.Errorf("%s %s %s: %d %s, want %d and %q", c.method, c.path, c.body, got.code, got.body, c.code, c.has)
		}
	}
}

func TestPublishAndFetchAsJSON(t *testing.T) {
	w := newWorld(t, 2, nil)
	published := w.do(t, "POST", "/v1/topics/orders:publish", `{"records":[
		{"key":"k","text":"plain","headers":[{"name":"h","text":"v"}]}, {"json":{"id":9007199254740993}}, {"data":"/w=="}, {}
	], "partition":1}`)
	answer := unjson[struct {
		Results    []struct{ Partition, Offset any }
		Durability string
	}](t, published.body)
	if published.code != 200 || len(answer.Results) != 4 || answer.Results[3].Offset != "3" || answer.Durability != "fsync-quorum" {
		t.Fatalf("publish: %d %s", published.code, published.body)
	}
	got := unjson[jsonFetch](t, w.do(t, "GET", "/v1/topics/orders/records", "").body)
	if len(got.Records) != 4 || !got.EndReached || got.NextCursor == "" {
		t.Fatalf("fetch: %+v", got)
	}
	first, second, third, fourth := got.Records[0], got.Records[1], got.Records[2], got.Records[3]
	if *first.Key != "k" || *first.Text != "plain" || first.Offset != "0" || first.Partition != 1 || first.Headers[0].Text != "v" {
		t.Errorf("first: %+v", first)
	}
	if *second.Text != `{"id":9007199254740993}` || second.Key != nil {
		t.Errorf("json: %+v", second)
	}
	if *third.Data != "/w==" || fourth.Text != nil || fourth.Data != nil {
		t.Errorf("data: %+v, null: %+v", third, fourth)
	}
	one := w.do(t, "GET", "/v1/namespaces/default/topics/orders/partitions/1/records/0", "")
	if one.code != 200 || *unjson[jsonRecord](t, one.body).Text != "plain" {
		t.Errorf("one record: %d %s", one.code, one.body)
	}
	on := unjson[jsonFetch](t, w.do(t, "GET", "/v1/topics/orders/records?cursor="+got.NextCursor, "").body)
	if len(on.Records) != 0 || !on.EndReached {
		t.Errorf("behind: %+v", on)
	}
}

// Values of any bytes come back in every form as they went in, in steps by the cursor.
func TestFormsOfRecords(t *testing.T) {
	w := newWorld(t, 1, nil)
	values := []string{"first\r\n", "", "\xff\x00", "line\n", "last"}
	for i, value := range values {
		got := w.do(t, "POST", "/v1/topics/orders/records?partition=0", value, "Content-Type", "application/pdf", "Sq-Key", fmt.Sprint("k", i), "Sq-Header-Trace-Id", "t")
		if got.code != 200 || !strings.Contains(got.body, fmt.Sprintf(`"offset":"%d"`, i)) && !strings.Contains(got.body, fmt.Sprintf(`"offset": "%d"`, i)) {
			t.Fatalf("post: %d %s", got.code, got.body)
		}
	}
	read := func(accept string) (all string, kind string) {
		t.Helper()
		path := "/v1/topics/orders/records?maxRecords=2"
		for range 5 {
			got := w.do(t, "GET", path, "", "Accept", accept)
			if got.code != 200 {
				t.Fatalf("%s: %d %s", accept, got.code, got.body)
			}
			all += got.body
			kind = got.header.Get("Content-Type")
			path = "/v1/topics/orders/records?maxRecords=2&cursor=" + got.header.Get("Sq-Next-Cursor")
			if got.header.Get("Sq-End-Reached") == "true" {
				return all, kind
			}
		}
		t.Fatalf("%s: no end", accept)
		return "", ""
	}
	if all, kind := read("application/octet-stream"); all != strings.Join(values, "") || kind != "application/octet-stream" {
		t.Errorf("bytes: %q, %s", all, kind)
	}
	if all, kind := read("text/plain"); all != strings.Join(values, "\n")+"\n" || kind != "text/plain; charset=utf-8" {
		t.Errorf("text: %q, %s", all, kind)
	}
	lines, kind := read("application/x-ndjson")
	if split := strings.Split(strings.TrimSuffix(lines, "\n"), "\n"); len(split) != 5 || kind != "application/x-ndjson" {
		t.Errorf("lines: %q, %s", lines, kind)
	} else {
		record := unjson[jsonRecord](t, split[2])
		if *record.Data != base64.StdEncoding.EncodeToString([]byte(values[2])) || *record.Key != "k2" || record.Headers[0].Name != "trace-id" {
			t.Errorf("line: %s", split[2])
		}
	}
	for accept, want := range map[string]int{
		"": 200, "*/*": 200, "text/html, */*;q=0.1": 200, "application/json;q=0": 406, "image/png": 406, "application/xml, text/csv": 406,
	} {
		if got := w.do(t, "GET", "/v1/topics/orders/records", "", "Accept", accept); got.code != want || want == 406 && got.reason() != "NOT_ACCEPTABLE" {
			t.Errorf("Accept %q: %d %s", accept, got.code, got.body)
		}
	}
}

// Real lines with CR, without an end, of any length: what a log file holds goes in as a stream and comes back byte for byte.
func TestStreamOfLines(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.Limits.ChunkRecords = 7 })
	var body, want strings.Builder
	for i := range 100 {
		value := fmt.Sprintf("line %d %s\r\n", i, strings.Repeat("x", i*37))
		want.WriteString(value)
		fmt.Fprintf(&body, `{"data":%q}`+"\n", base64.StdEncoding.EncodeToString([]byte(value)))
		if i%10 == 0 {
			body.WriteString("\n  \r\n") // empty lines are passed
		}
	}
	got := w.do(t, "POST", "/v1/topics/orders/records", body.String(), "Content-Type", "application/x-ndjson; charset=utf-8", "Idempotency-Key", "load-1")
	sum := unjson[streamed](t, got.body)
	if got.code != 200 || sum.Records != "100" || sum.Durability != "fsync-quorum" || len(sum.Partitions) != 1 || sum.Partitions[0].FirstOffset != "0" ||
		sum.Partitions[0].LastOffset != "99" {
		t.Fatalf("stream: %d %s", got.code, got.body)
	}
	if again := w.do(t, "POST", "/v1/topics/orders/records", body.String(), "Content-Type", "application/x-ndjson", "Idempotency-Key", "load-1"); again.code != 200 {
		t.Errorf("again: %d %s", again.code, again.body)
	}
	if all := w.do(t, "GET", "/v1/topics/orders/records", "", "Accept", "application/octet-stream"); all.body != want.String() {
		t.Errorf("read %d bytes, want %d", len(all.body), want.Len())
	}
	if used := w.gate.Bodies().(*frame.MemoryBudget).Used(); used != 0 {
		t.Errorf("%d bytes are still reserved", used)
	}
}

// A line that comes late does not hold back those before it.
func TestStreamIsStoredAsItComes(t *testing.T) {
	w := newWorld(t, 1, nil)
	reader, writer := newPipe()
	done := make(chan response, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway:6062/v1/topics/orders/records", reader)
		if err != nil {
			t.Error(err)
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		res, err := w.client.Do(req)
		if err != nil {
			t.Error(err)
			close(done)
			return
		}
		res.Body.Close()
		done <- response{code: res.StatusCode}
	}()
	_, _ = writer.Write([]byte(`{"text":"early"}` + "\n"))
	if got := unjson[jsonFetch](t, w.do(t, "GET", "/v1/topics/orders/records?waitTime=10s", "").body); len(got.Records) != 1 || *got.Records[0].Text != "early" {
		t.Errorf("while the stream is open: %+v", got)
	}
	_, _ = writer.Write([]byte(`{"text":"late"}`))
	_ = writer.Close()
	if got := <-done; got.code != 200 || w.Logs[0].End() != 2 {
		t.Errorf("end: %d, %d records", got.code, w.Logs[0].End())
	}
}

// What is wrong with a stream is told by line, and what was before it is stored.
func TestStreamEndsAtTheFirstBadLine(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.Limits.LineBytes = 4 << 10; c.Limits.ChunkRecords = 2 })
	good := `{"text":"v"}` + "\n"
	for name, c := range map[string]struct {
		body         string
		code         int
		reason       string
		line, stored string
	}{
		"not JSON":      {good + good + good + "nope\n" + good, 400, "INVALID", "4", "3"},
		"unknown field": {good + `{"txt":"v"}`, 400, "INVALID", "2", "1"},
		"two values":    {`{"json":1,"text":"v"}`, 400, "INVALID", "1", "0"},
		"too deep":      {good + `{"json":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}", 400, "INVALID", "2", "1"},
		"too long":      {good + `{"text":"` + strings.Repeat("x", 5<<10) + `"}`, 413, "TOO_LARGE", "2", "1"},
		"not UTF-8":     {good + "{\"text\":\"\xff\"}", 400, "INVALID", "2", "1"},
		"nothing":       {"", 200, "", "", ""},
	} {
		got := w.do(t, "POST", "/v1/topics/orders/records", c.body, "Content-Type", "application/x-ndjson")
		if got.code != c.code || got.reason() != c.reason || c.line != "" && (got.detail("line") != c.line || got.detail("stored") != c.stored) {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	if got := w.do(t, "POST", "/v1/topics/nope/records", good, "Content-Type", "application/x-ndjson"); got.code != 404 || got.detail("line") != "1" {
		t.Errorf("unknown topic: %d %s", got.code, got.body)
	}
}

func TestOneRecordThatFailsFailsTheRequest(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		_ = req.Fail(&frame.RemoteError{Kind: wirecapnp.ErrorKind_overloaded, Text: "busy", RetryAfter: 1500 * time.Millisecond})
		return true
	})
	got := w.do(t, "POST", "/v1/topics/orders/records", "v")
	if got.code != 429 || got.reason() != "OVERLOADED" || got.detail("retryable") != true || got.header.Get("Retry-After") != "2" || got.detail("retryAfter") != "1.5s" {
		t.Errorf("%d %v %s", got.code, got.header, got.body)
	}
}

// Errors about lost data say how to go on.
func TestTrimmedOverREST(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.Append(t, 0, "a", "b", "c")
	first := unjson[jsonFetch](t, w.do(t, "GET", "/v1/topics/orders/records?maxRecords=1", "").body)
	w.Logs[0].Trim(2)
	got := w.do(t, "GET", "/v1/topics/orders/records?cursor="+first.NextCursor, "")
	if got.code != http.StatusGone || got.reason() != "OFFSET_TRIMMED" || got.detail("logStart") != "2" || got.detail("offset") != nil {
		t.Fatalf("%d %s", got.code, got.body)
	}
	on := unjson[jsonFetch](t, w.do(t, "GET", fmt.Sprintf("/v1/topics/orders/records?cursor=%s", got.detail("cursor")), "").body)
	if len(on.Records) != 1 || *on.Records[0].Text != "c" {
		t.Errorf("behind it: %+v", on)
	}
	if got := w.do(t, "GET", "/v1/topics/orders/records?partition=0&from=9", ""); got.code != 416 || got.detail("highWatermark") != "3" {
		t.Errorf("beyond the end: %d %s", got.code, got.body)
	}
}

// Events carry the cursor behind each record: whoever comes back with one gets the next record, whichever it was.
func TestEvents(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.Append(t, 0, "a0", "a1", "a2")
	w.Append(t, 1, "b0", "b1")
	events := func(last string, count int) (ids, data []string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway:6062/v1/topics/orders/records", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for scan := bufio.NewScanner(res.Body); len(data) < count && scan.Scan(); {
			if id, ok := strings.CutPrefix(scan.Text(), "id: "); ok {
				ids = append(ids, id)
			}
			if text, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				data = append(data, *unjson[jsonRecord](t, text).Text)
			}
		}
		return ids, data
	}
	ids, all := events("", 5)
	if len(all) != 5 {
		t.Fatalf("events: %v", all)
	}
	for i := range 4 {
		if _, rest := events(ids[i], 4-i); !slices.Equal(rest, all[i+1:]) {
			t.Errorf("after %s: %v, want %v", all[i], rest, all[i+1:])
		}
	}
	late := make(chan []string, 1)
	go func() {
		_, data := events(ids[4], 1)
		late <- data
	}()
	w.Append(t, 1, "b2")
	if got := <-late; !slices.Equal(got, []string{"b2"}) {
		t.Errorf("late: %v", got)
	}
	if got := w.do(t, "GET", "/v1/topics/nope/records", "", "Accept", "text/event-stream"); got.code != 404 || got.reason() != fault.NotFound.Reason() {
		t.Errorf("unknown topic: %d %s", got.code, got.body)
	}
}

// The time for a body bounds nothing else: a poll waits longer, and the connection serves on behind every kind of request.
func TestConnectionsOutliveTheirBodies(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.Limits.BodyTime = 100 * time.Millisecond })
	for range 3 {
		if got := w.do(t, "GET", "/v1/topics/orders/records?waitTime=300ms", ""); got.code != 200 {
			t.Errorf("poll: %d %s", got.code, got.body)
		}
		if got := w.do(t, "POST", "/v1/topics/orders/records", `{"text":"v"}`, "Content-Type", "application/x-ndjson"); got.code != 200 {
			t.Errorf("stream: %d %s", got.code, got.body)
		}
		if got := w.do(t, "POST", "/v1/topics/orders/records", "nope", "Content-Type", "application/x-ndjson"); got.code != 400 {
			t.Errorf("bad stream: %d %s", got.code, got.body)
		}
		if got := w.do(t, "POST", "/v1/topics/orders:publish", `{"records":[{}]}`); got.code != 200 {
			t.Errorf("publish: %d %s", got.code, got.body)
		}
		w.Append(t, 0, "more")
		next := unjson[jsonFetch](t, w.do(t, "GET", "/v1/topics/orders/records", "").body)
		if got := w.do(t, "GET", "/v1/topics/orders/records?waitTime=300ms&cursor="+next.NextCursor, ""); got.code != 200 {
			t.Errorf("poll behind: %d %s", got.code, got.body)
		}
	}
}

// A drain ends long polls and streams with what they have.
func TestDrainEndsWhatWaits(t *testing.T) {
	w := newWorld(t, 1, nil)
	polled := make(chan response, 1)
	go func() { polled <- w.do(t, "GET", "/v1/topics/orders/records?waitTime=60s", "") }()
	for w.gateInUse() == 0 {
		time.Sleep(time.Millisecond) //nolint:forbidigo // it has to be seen from outside that the poll has come.
	}
	w.handler.Drain()
	if got := <-polled; got.code != 200 || unjson[jsonFetch](t, got.body).NextCursor == "" {
		t.Errorf("poll: %d %s", got.code, got.body)
	}
	if got := w.do(t, "GET", "/v1/topics/orders/records", "", "Accept", "text/event-stream"); got.code != 200 || !strings.HasPrefix(got.body, "retry: ") {
		t.Errorf("events: %d %s", got.code, got.body)
	}
}
