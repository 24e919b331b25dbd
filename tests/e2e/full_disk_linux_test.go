package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// volume mounts an ext4 of its own, which ends with the test.
func volume(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a loop device")
	}
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, mount}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no loop-mounted ext4 here: %v: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return mount
}

// line is text that does not compress.
func line(t *testing.T, size int) string {
	t.Helper()
	raw := make([]byte, size*3/4)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// TestFullDisk: a disk that fills up, to the last byte, costs nobody a record and goes on by itself when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	mount := volume(t, 256<<20)
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes, Args: map[string][]string{"broker": {"--data-dir", mount}}})
	c.Expect("cannot ")
	c.MustSQ(t, "topic", "create", "orders", "--segment-bytes", "8MiB", "--no-tier")
	broker := c.Process("broker")
	var acked bytes.Buffer
	publish := func(text string) (status int, body string, took time.Duration) {
		begun := time.Now()
		status, body = c.REST(t, http.MethodPost, "/v1/topics/orders:publish", fmt.Sprintf(`{"records":[{"text":%q}]}`, text))
		return status, body, time.Since(begun)
	}
	for {
		text := line(t, 700<<10)
		status, body, took := publish(text)
		if status == http.StatusOK {
			acked.WriteString(text + "\n")
			continue
		}
		if status != http.StatusInsufficientStorage || !strings.Contains(body, "DISK_FULL") || took > 5*time.Second {
			t.Errorf("after %v: %d %.500s", took, status, body)
		}
		t.Logf("refused after %d MiB, in %v: %.300s", acked.Len()>>20, took, body)
		break
	}
	if acked.Len() < 128<<20 {
		t.Errorf("only %d MiB were taken of a disk of 256", acked.Len()>>20)
	}
	status, body := c.Get(t, broker.Ready)
	if state := c.Metric(t, "broker", "sq_broker_disk_state"); status != http.StatusServiceUnavailable || !strings.Contains(body, "refuses records") || state != 1 {
		t.Errorf("ready: %d %s; state %v", status, body, state)
	}
	read := func(what string) {
		t.Helper()
		if got := c.MustSQ(t, "consume", "orders", "--until-end", "--from", "earliest"); !bytes.HasPrefix(got, acked.Bytes()) {
			t.Fatalf("%s: read %d bytes that do not begin with the %d acknowledged", what, len(got), acked.Len())
		}
	}
	read("records are refused")

	others, err := os.Create(filepath.Join(mount, "others"))
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	fill := func() {
		for size := int64(1 << 20); size > 0; size /= 2 {
			for at, _ := others.Seek(0, io.SeekEnd); ; {
				n, err := others.WriteAt(make([]byte, size), at)
				if at += int64(n); err != nil {
					break
				}
			}
			others.Seek(0, io.SeekEnd)
		}
	}
	fill()
	eventually(t, 5*time.Second, func() bool {
		return c.Metric(t, "broker", "sq_broker_disk_state") == 2 && c.Metric(t, "broker", "sq_broker_disk_ballast_bytes") == 0
	},
		func() any { return broker.Log() })
	c.MustSQ(t, "topic", "seal", "orders") // in the ballast's room
	c.Kill("broker")
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() bool { return c.Partition(t, "orders").Active }, func() any { return broker.Log() })
	read("after kill -9 on a full disk")

	before := c.Partition(t, "orders")
	c.MustSQ(t, "topic", "trim", "orders", "--partition", "0", "--before-offset", fmt.Sprint(before.SealedEnd*3/4))
	eventually(t, 10*time.Second, func() bool {
		status, _, _ := publish("more")
		return status == http.StatusOK
	}, func() any {
		return fmt.Sprintf("%+v\n%s", c.Partition(t, "orders"), broker.Log())
	})
	c.AwaitReady(t, "broker")
	all := append(acked.Bytes(), "more\n"...)
	got := c.MustSQ(t, "consume", "orders", "--until-end", "--from", "earliest")
	if !bytes.HasSuffix(got, []byte("more\n")) || len(got) > len(all)/2 || !bytes.Contains(all, got[:len(got)-5]) {
		t.Errorf("read %d bytes after the trim, which are not the newest of %d", len(got), len(all))
	}
}
