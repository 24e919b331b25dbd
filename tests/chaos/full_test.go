package chaos

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/chaos/history"
	"github.com/seedqueue/sq/tests/cluster"
)

const (
	fullVolume = 256 << 20
	fullRecord = 512 << 10
	// fullTimeout is how long a write to a full disk is tried.
	fullTimeout = 3 * time.Second
)

// TestFullDisk: a broker on a full file system refuses records with a reason, serves what it has, and can be killed and started again; trimming
// makes room, and writing goes on. Nothing acknowledged is lost at any step.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	v, err := newVolume(t, "ext4", fullVolume)
	if err != nil {
		t.Skipf("skipped, there is no file system to fill: %v", err)
	}
	if err := os.WriteFile(filepath.Join(v.dir, "others"), make([]byte, fullVolume/2), 0o600); err != nil { // is quicker than records
		t.Fatal(err)
	}
	f := &filler{t: t, history: history.New()}
	f.cluster = start(t, filepath.Join(v.dir, "broker"))
	f.cluster.MustSQ(t, "topic", "create", "full", "--no-tier", "--segment-bytes", "4MiB")
	if f.client, err = sq.Open(t.Context(), f.cluster.DataAddr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.client.Close() })
	f.producer = f.client.Producer("full")

	for round := range 2 {
		f.fill()
		f.refused()
		f.readAll()
		if round == 0 {
			f.cluster.Kill("broker")
			if err := f.cluster.Process("broker").Start(); err != nil { // it need not be ready, since it is full
				t.Fatal(err)
			}
			f.readAll()
			f.refused()
		}
		f.trim()
		eventually(t, patience, "records are taken again", func() bool { return f.send() == nil })
		f.readAll()
	}
	f.cluster.Kill("broker")
	f.cluster.Restart(t, "broker")
	f.cluster.AwaitReady(t)
	f.readAll()
	t.Logf("%+v, trimmed below %d", f.history.Counts(), f.start)
}

// filler writes to a topic of one partition until there is no room.
type filler struct {
	t        *testing.T
	cluster  *cluster.Cluster
	client   *sq.Client
	producer *sq.Producer
	history  *history.History
	start    int64 // of the log, after the last trim
	end      int64 // behind the last record
}

// send writes one record, and gives the error that says that it is not there.
func (f *filler) send() error {
	id := f.history.Invoke(0, 0)
	ctx, cancel := context.WithTimeout(f.t.Context(), fullTimeout)
	defer cancel()
	ack, err := f.producer.Send(ctx, sq.Record{Value: history.Value(id, fullRecord)})
	switch {
	case err == nil:
		f.history.OK(id, ack.Offset)
		f.end = ack.Offset + 1
	case errors.Is(err, sq.ErrOutcomeUnknown):
		f.history.Unknown(id)
	default:
		f.history.Fail(id)
	}
	return err
}

// fill writes until it is refused, which must be for lack of room.
func (f *filler) fill() {
	f.t.Helper()
	const most = 2 * fullVolume / fullRecord
	for range most {
		if err := f.send(); err != nil {
			f.full(err)
			return
		}
	}
	f.t.Fatalf("%d records of %d bytes were taken on a disk of %d", most, fullRecord, fullVolume)
}

// full wants an error to name the full disk.
func (f *filler) full(err error) {
	f.t.Helper()
	if !errors.Is(err, sq.ErrDiskFull) {
		f.t.Errorf("refused, but not for the full disk: %v", err)
	}
}

// refused wants each way in to say that the disk is full: the SDK when it has tried long enough, REST at once or when it has.
func (f *filler) refused() {
	f.t.Helper()
	err := f.send()
	if err == nil {
		f.t.Fatal("a record was taken on a full disk")
	}
	f.t.Logf("refused: %s: %v", sq.KindOf(err), err)
	f.full(err)
	body := `{"records":[{"value":"` + base64.StdEncoding.EncodeToString([]byte("no room")) + `"}]}`
	status, answer := f.cluster.REST(f.t, http.MethodPost, "/v1/topics/full/records", body)
	if status != http.StatusInsufficientStorage || !strings.Contains(answer, "DISK_FULL") {
		f.t.Errorf("REST: %d %s", status, answer)
	}
}

// trim deletes the older half.
func (f *filler) trim() {
	f.t.Helper()
	f.start += (f.end - f.start) / 2
	f.history.Trimmed(0, f.start)
	f.cluster.MustSQ(f.t, "topic", "trim", "full", "--partition", "0", "--before-offset", strconv.FormatInt(f.start, 10))
}

func (f *filler) readAll() {
	f.t.Helper()
	reading := f.history.Begin()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for r, err := range f.client.Read(ctx, "full", sq.From(sq.Earliest), sq.Until(sq.Latest)) {
		if err != nil {
			f.t.Fatal(err)
		}
		reading.Observe(r.Partition, r.Offset, r.Value)
	}
	for _, a := range reading.Complete() {
		f.t.Error(a)
	}
}
