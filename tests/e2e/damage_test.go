package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/cluster"
)

// TestDamagedLog spoils the log of a stopped broker, on disk: what was not hit is read, what was is an error that says where it ends, and where the
// log's own decisions may be missing nothing is appended behind.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes})
	client, err := sq.Open(t.Context(), c.DataAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, topic := range []string{"body", "header"} {
		c.MustSQ(t, "topic", "create", topic)
		for i := range 5 {
			if _, err := client.Producer(topic).Send(t.Context(), sq.Record{Value: fmt.Appendf(nil, "%s-value-%d", topic, i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := c.Process("broker").Flag("data-dir")
	c.Kill("broker")
	spoil(t, dir, "body-value-2", func(file []byte, at int) { file[at] ^= 1 })
	spoil(t, dir, "header-value-2", func(file []byte, at int) {
		for from := at &^ 7; ; from -= 8 {
			if h, err := batch.ParseHeader(file[from:]); err == nil && from+h.Size > at {
				clear(file[from : from+batch.HeaderBytes])
				return
			}
		}
	})
	c.Expect(`damaged|does not stand|not ready`)
	if err := c.Process("broker").Start(); err != nil { // which is never ready
		t.Fatal(err)
	}
	for _, topic := range []string{"body", "header"} {
		values, lost := readOver(t, client, topic)
		want := fmt.Sprintf("%[1]s-value-0 %[1]s-value-1 %[1]s-value-3 %[1]s-value-4", topic)
		if got := strings.Join(values, " "); got != want || lost != 1 {
			t.Errorf("%s: read %q and %d damaged ranges, want %q and 1", topic, got, lost, want)
		}
	}
	if more := c.SQ(t, []byte("more\n"), "produce", "body"); more.Code != 0 {
		t.Errorf("a publish behind a lost record: code %d, %s", more.Code, more.Stderr)
	}
	refused := c.SQ(t, []byte("more\n"), "produce", "header")
	if refused.Code == 0 || !strings.Contains(string(refused.Stderr), "cannot be read") {
		t.Errorf("a publish behind a lost header: code %d, %s", refused.Code, refused.Stderr)
	}
	if told := c.SQ(t, nil, "doctor"); told.Code == 0 || !bytes.Contains(told.Stdout, []byte("body/0 (1 ranges)")) || !bytes.Contains(told.Stdout, []byte("header/0")) {
		t.Errorf("doctor: code %d, %s", told.Code, told.Stdout)
	}
	if status, body := c.Get(t, c.Process("broker").Ready); status != http.StatusServiceUnavailable || !strings.Contains(body, "cannot be read") {
		t.Errorf("ready: %d %s", status, body)
	}
}

// readOver reads a topic to its end, over what is damaged.
func readOver(t *testing.T, client *sq.Client, topic string) (values []string, lost int) {
	t.Helper()
	for r, err := range client.Read(t.Context(), topic, sq.From(sq.Earliest)) {
		if bad, ok := errors.AsType[*sq.CorruptError](err); ok {
			if bad.Offset != 3 || bad.Next != 4 {
				t.Errorf("%s: damaged is [%d, %d)", topic, bad.Offset, bad.Next)
			}
			lost++
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		if values = append(values, string(r.Value)); len(values) == 4 {
			break
		}
	}
	return values, lost
}

// spoil changes the log file below a directory that holds a text.
func spoil(t *testing.T, dir, text string, change func(file []byte, at int)) {
	t.Helper()
	done := false
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") {
			return err
		}
		file, err := os.ReadFile(path)
		if at := bytes.Index(file, []byte(text)); err == nil && at >= 0 {
			change(file, at)
			done = true
			return os.WriteFile(path, file, 0o644)
		}
		return err
	})
	if err != nil || !done {
		t.Fatalf("no log below %s holds %q: %v", dir, text, err)
	}
}
