package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seedqueue/sq/tests/cluster"
)

// refused runs sq and wants it to fail with a message that has all words, and nothing that looks like a stack or a Go type.
func refused(t *testing.T, c *cluster.Cluster, stdin []byte, words []string, args ...string) {
	t.Helper()
	r := c.SQ(t, stdin, args...)
	text := string(r.Stderr)
	if r.Code == 0 {
		t.Errorf("sq %s: accepted: %s", strings.Join(args, " "), r.Stdout)
		return
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			t.Errorf("sq %s: code %d, message lacks %q: %s", strings.Join(args, " "), r.Code, word, text)
		}
	}
	if len(text) > 1000 || strings.Contains(text, "&{") || strings.Contains(text, "rpc error: code") {
		t.Errorf("sq %s: not readable: %.1500s", strings.Join(args, " "), text)
	}
}

// refusedREST wants an error with a status and a reason that stay.
func refusedREST(t *testing.T, c *cluster.Cluster, method, path, content string, status int, reason string) {
	t.Helper()
	got, body := c.REST(t, method, path, content)
	var answer struct {
		Message string
		Details []struct{ Reason string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Errorf("%s %s: %d, not JSON: %.300s", method, path, got, body)
		return
	}
	if got != status || answer.Message == "" || len(answer.Details) == 0 || answer.Details[0].Reason != reason {
		t.Errorf("%s %s: %d %.300s; want %d %s", method, path, got, body, status, reason)
	}
}

// TestBadRequests: what a user may get wrong is refused by name, and what was there before stays.
func TestBadRequests(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		c.MustSQ(t, "topic", "create", "orders")
		c.MustSQ(t, "produce", "orders", "before")
		t.Run("unknown topic", func(t *testing.T) {
			refused(t, c, nil, []string{"no-such-topic", "not"}, "consume", "no-such-topic", "--from", "earliest", "--until-end")
			refused(t, c, nil, []string{"no-such-topic", "not"}, "topic", "describe", "no-such-topic")
			refused(t, c, nil, []string{"no-such-topic", "not"}, "topic", "delete", "no-such-topic")
			refusedREST(t, c, http.MethodGet, "/v1/topics/no-such-topic", "", http.StatusNotFound, "NOT_FOUND")
			refusedREST(t, c, http.MethodGet, "/v1/topics/no-such-topic/records?from=earliest", "", http.StatusNotFound, "NOT_FOUND")
		})
		t.Run("bad topic name", func(t *testing.T) { badNames(t, c) })
		t.Run("bad flags", func(t *testing.T) {
			for _, args := range [][]string{
				{"consume", "orders", "--from", "yesteryear"},
				{"topic", "create", "x", "--partitions", "-1"},
				{"topic", "create", "x", "--partitions", "1000000"},
				{"topic", "create", "x", "--segment-bytes", "1KiB"},
				{"produce", "orders", "-f", filepath.Join(c.Dir, "no-such-file")},
				{"produce", "orders", "--format", "xml", "x"},
				{"no-such-command"},
			} {
				refused(t, c, nil, nil, args...)
			}
		})
		t.Run("oversize", func(t *testing.T) { oversize(t, c) })
		t.Run("bad REST", func(t *testing.T) { badREST(t, c) })
		if got := consume(t, c, "orders"); !bytes.HasPrefix(got, []byte("before")) || !bytes.HasSuffix(got, []byte("after")) || len(got) != 11 {
			t.Errorf("the topic is now %.200q", got)
		}
	})
}

func badNames(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, name := range []string{"has space", "../etc", "a/b", ".", "", "UPPER$", strings.Repeat("x", 300), "ümlaut", "nul\x00"} {
		body, err := json.Marshal(map[string]string{"topic": name})
		if err != nil {
			t.Fatal(err)
		}
		refusedREST(t, c, http.MethodPost, "/v1/topics", string(body), http.StatusBadRequest, "INVALID")
		if strings.Contains(name, "\x00") {
			continue // cannot be an argument
		}
		refused(t, c, nil, []string{"topic", "legal are"}, "topic", "create", name)
	}
}

// oversize: a record above the limit of a batch, and one above any.
func oversize(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for size, says := range map[int]string{2 << 20: "record is too large", 9 << 20: "line 1 is longer than a record may be"} {
		path := filepath.Join(t.TempDir(), "big")
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, c, nil, []string{says}, "produce", "orders", "-f", path, "--format", "raw")
	}
	record := base64.StdEncoding.EncodeToString(noise(2 << 20))
	refusedREST(t, c, http.MethodPost, "/v1/topics/orders:publish", fmt.Sprintf(`{"records":[{"data":"%s"}]}`, record),
		http.StatusRequestEntityTooLarge, "TOO_LARGE")
	// The gateway answers as soon as it has seen too much, and closes: a client that is still writing may see only that.
	status, body, err := c.TryREST(t, http.MethodPost, "/v1/topics/orders:publish", `{"records":[{"text":"`+strings.Repeat("x", 64<<20)+`"}]}`)
	if err == nil && status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 64 MiB: %d %.300s", status, body)
	}
	c.MustSQ(t, "produce", "orders", "after")
}

func badREST(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, content := range []string{`{`, `[]`, `{"records":5}`, `{"records":[{"data":"%%%"}]}`, `{"unknown":1}`, `{"records":[]}`, "\xff\xfe"} {
		refusedREST(t, c, http.MethodPost, "/v1/topics/orders:publish", content, http.StatusBadRequest, "INVALID")
	}
	refusedREST(t, c, http.MethodGet, "/v1/topics/orders/records?from=never", "", http.StatusBadRequest, "INVALID")
	refusedREST(t, c, http.MethodGet, "/v1/topics/orders/records?cursor=forged", "", http.StatusBadRequest, "INVALID")
	refusedREST(t, c, http.MethodGet, "/v1/topics/orders/records?maxRecords=minus", "", http.StatusBadRequest, "INVALID")
	refusedREST(t, c, http.MethodPost, "/v1/topics", `{"topic":"orders"}`, http.StatusConflict, "EXISTS")
}
