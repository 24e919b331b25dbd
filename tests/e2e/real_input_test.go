package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// tierTimeout bounds how long sealed segments may take to the bucket and into its manifest.
const tierTimeout = 30 * time.Second

// TestRealInput sends each file through SQ and wants the same bytes back: hot, by REST, after a restart, after kill −9, from the
// bucket.
func TestRealInput(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		files := inputs(t)
		for _, in := range files {
			c.MustSQ(t, "topic", "create", in.topic, "--segment-bytes", "64KiB")
			c.MustSQ(t, "produce", in.topic, "-f", in.path, "--format", "raw")
		}
		step(t, "hot", func(t *testing.T) { consumeAll(t, c, files) })
		step(t, "by REST", func(t *testing.T) { throughREST(t, c, files) })
		step(t, "after a restart", func(t *testing.T) {
			c.StopAll(t)
			c.RestartAll(t)
			consumeAll(t, c, files)
		})
		step(t, "after kill -9", func(t *testing.T) {
			c.KillAll()
			c.RestartAll(t)
			consumeAll(t, c, files)
		})
		step(t, "writable after kill -9", func(t *testing.T) {
			c.MustSQ(t, "topic", "create", "after")
			for _, in := range files {
				c.MustSQ(t, "produce", in.topic, "-f", in.path, "--format", "raw")
			}
		})
		for i := range files {
			files[i].content = append(files[i].content, files[i].content...)
		}
		step(t, "appended", func(t *testing.T) { consumeAll(t, c, files) })
		step(t, "from the bucket", func(t *testing.T) { fromBucket(t, c, files) })
		step(t, "from the bucket after kill -9", func(t *testing.T) {
			c.KillAll()
			c.RestartAll(t)
			consumeAll(t, c, files)
		})
	})
}

// step is a part of a test without which the next make no sense.
func step(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, do) {
		t.FailNow()
	}
}

func consume(t *testing.T, c *cluster.Cluster, topic string) []byte {
	t.Helper()
	return c.MustSQ(t, "consume", topic, "--from", "earliest", "--until-end", "--format", "raw")
}

func consumeAll(t *testing.T, c *cluster.Cluster, files []input) {
	t.Helper()
	for _, in := range files {
		in.same(t, consume(t, c, in.topic))
	}
}

// fromBucket seals, waits for the upload, frees the local disk, and reads what is then only in the bucket.
func fromBucket(t *testing.T, c *cluster.Cluster, files []input) {
	t.Helper()
	for _, in := range files {
		c.MustSQ(t, "topic", "seal", in.topic)
	}
	for _, in := range files {
		if len(in.content) == 0 {
			continue
		}
		before := c.Partition(t, in.topic)
		if before.SealedEnd == 0 || before.LocalStart != 0 {
			t.Fatalf("%s: sealed but %+v", in.topic, before)
		}
		eventually(t, tierTimeout, func() bool { return c.Partition(t, in.topic).ExportedEnd >= before.SealedEnd },
			func() any { return c.Partition(t, in.topic) })
		c.MustSQ(t, "topic", "trim", in.topic, "--local")
		after := c.Partition(t, in.topic)
		if after.LocalStart != before.SealedEnd || after.LogStart != 0 {
			t.Fatalf("%s: local disk freed to %d of %d sealed, log start %d", in.topic, after.LocalStart, before.SealedEnd, after.LogStart)
		}
		reads := c.Metric(t, "tierer", coldReads)
		in.same(t, consume(t, c, in.topic))
		if now := c.Metric(t, "tierer", coldReads); now <= reads {
			t.Errorf("%s: %s stays %v: the bytes did not come from the bucket", in.topic, coldReads, now)
		}
	}
}

// eventually waits for a state that the cluster reaches by itself.
func eventually(t *testing.T, within time.Duration, reached func() bool, state func() any) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v; now %+v", within, state())
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}

// throughREST reads what the command wrote, and has the command read what REST wrote.
func throughREST(t *testing.T, c *cluster.Cluster, files []input) {
	t.Helper()
	for _, in := range files {
		in.same(t, restRead(t, c, in.topic))
		topic := in.topic + "-rest"
		status, body := c.REST(t, http.MethodPost, "/v1/topics", `{"topic":"`+topic+`"}`)
		if status != http.StatusOK {
			t.Fatalf("create %s: %d %s", topic, status, body)
		}
		restWrite(t, c, topic, in.lines())
		in.same(t, consume(t, c, topic))
		in.same(t, restRead(t, c, topic))
	}
}

// restWrite publishes in portions far below the gateway's limit on a request.
func restWrite(t *testing.T, c *cluster.Cluster, topic string, records [][]byte) {
	t.Helper()
	const portion = 500
	for len(records) > 0 {
		n := min(portion, len(records))
		var request struct {
			Records []map[string]string `json:"records"`
		}
		for _, r := range records[:n] {
			request.Records = append(request.Records, map[string]string{"data": base64.StdEncoding.EncodeToString(r)})
		}
		records = records[n:]
		content, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		status, body := c.REST(t, http.MethodPost, "/v1/topics/"+topic+":publish", string(content))
		var answer struct {
			Results    []struct{ Error *json.RawMessage }
			Durability string
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Results) != n {
			t.Fatalf("publish to %s: %d, %v, %d results: %.500s", topic, status, err, len(answer.Results), body)
		}
		for i, r := range answer.Results {
			if r.Error != nil {
				t.Fatalf("publish to %s: record %d: %s", topic, i, *r.Error)
			}
		}
		if answer.Durability != "fsync-quorum" {
			t.Errorf("publish to %s reached %q", topic, answer.Durability)
		}
	}
}

func restRead(t *testing.T, c *cluster.Cluster, topic string) []byte {
	t.Helper()
	var out []byte
	query := url.Values{"from": {"earliest"}}
	for {
		status, body := c.REST(t, http.MethodGet, "/v1/topics/"+topic+"/records?"+query.Encode(), "")
		var answer struct {
			Records []struct {
				Text *string
				Data []byte
			}
			NextCursor string
			EndReached bool
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
			t.Fatalf("read %s: %d, %v: %.500s", topic, status, err, body)
		}
		for _, r := range answer.Records {
			if r.Text != nil {
				out = append(out, *r.Text...)
			}
			out = append(out, r.Data...)
		}
		if answer.EndReached {
			return out
		}
		if answer.NextCursor == "" {
			t.Fatalf("read %s: neither end nor cursor: %.500s", topic, body)
		}
		query = url.Values{"cursor": {answer.NextCursor}}
	}
}
