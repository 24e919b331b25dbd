package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/proto/frame/internal/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenConn takes some bytes and then fails.
type brokenConn struct {
	net.Conn
	took   bytes.Buffer
	limit  int
	opened chan struct{} // writing waits for it
}

var errBroken = errors.New("broken")

func (c *brokenConn) SetWriteDeadline(time.Time) error { return nil }

func (c *brokenConn) Write(p []byte) (int, error) {
	<-c.opened
	n := min(len(p), c.limit-c.took.Len())
	c.took.Write(p[:n])
	if n < len(p) {
		return n, errBroken
	}
	return n, nil
}

// item notes what becomes of it.
type item struct {
	message, body string
	self          bool // the body writes itself
	closed        int
	told          []bool
}

func (i *item) Len() int { return len(i.body) }
func (i *item) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, i.body)
	return int64(n), err
}
func (i *item) Close() error      { i.closed++; return nil }
func (i *item) Written(sent bool) { i.told = append(i.told, sent) }

func (i *item) push(o *outbox.Outbox) error {
	it := outbox.Item{Append: func(to []byte) ([]byte, error) { return append(to, i.message...), nil }, Done: i}
	if i.body != "" {
		it.Body = i
		if !i.self {
			half := len(i.body) / 2
			it.Slices = [][]byte{[]byte(i.body[:half]), []byte(i.body[half:])}
		}
	}
	return o.Push(it)
}

func items() []*item {
	long := func(c byte, n int) string { return string(bytes.Repeat([]byte{c}, n)) }
	return []*item{
		{message: "m1"},
		{message: "m2", body: long('b', 100)},
		{message: "m3", body: long('c', 5000)},
		{message: "m4", body: long('d', 300), self: true},
		{message: "m5"},
		{message: "m6", body: long('e', 600)},
	}
}

// Invariants 1 to 3, for a connection that breaks after every possible number of bytes: what was written whole is told as sent, nothing else.
func TestEveryBreak(t *testing.T) {
	whole := ""
	var ends []int
	for _, i := range items() {
		whole += i.message + i.body
		ends = append(ends, len(whole))
	}
	for limit := 0; limit <= len(whole); limit += 1 + limit/200*13 {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			conn := &brokenConn{limit: limit, opened: make(chan struct{})}
			o := outbox.New(conn, time.Second, time.Now)
			all := items()
			for _, i := range all {
				if err := i.push(o); err != nil {
					t.Fatal(err)
				}
			}
			var writer sync.WaitGroup
			writer.Go(func() {
				if err := o.Run(); (err == nil) != (limit >= len(whole)) {
					t.Errorf("run: %v", err)
				}
			})
			o.Close()
			close(conn.opened)
			writer.Wait()
			if got := conn.took.String(); got != whole[:min(limit, len(whole))] {
				t.Errorf("%d bytes went out, not as they were pushed", len(got))
			}
			for n, i := range all {
				if want := ends[n] <= limit; len(i.told) != 1 || i.told[0] != want {
					t.Errorf("item %d ends at %d and was told %v", n, ends[n], i.told)
				}
				if want := min(len(i.body), 1); i.closed != want {
					t.Errorf("item %d was closed %d times", n, i.closed)
				}
			}
			if err := (&item{message: "late"}).push(o); err == nil {
				t.Error("an ended outbox takes more")
			}
		})
	}
}

// A withdrawn item does not go out, and its neighbours do.
func TestWithdraw(t *testing.T) {
	conn := &brokenConn{limit: 1 << 20, opened: make(chan struct{})}
	o := outbox.New(conn, time.Second, time.Now)
	all := items()
	for _, i := range all {
		if err := i.push(o); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Withdraw(all[2]) || o.Withdraw(all[2]) {
		t.Error("an item is withdrawn once")
	}
	o.Close()
	close(conn.opened)
	if err := o.Run(); err != nil {
		t.Fatal(err)
	}
	want := ""
	for n, i := range all {
		if n != 2 {
			want += i.message + i.body
		}
	}
	if conn.took.String() != want {
		t.Errorf("%d bytes went out, want %d", conn.took.Len(), len(want))
	}
	if all[2].closed != 1 || len(all[2].told) != 0 {
		t.Errorf("withdrawn item: closed %d times, told %v", all[2].closed, all[2].told)
	}
	if o.Withdraw(all[3]) {
		t.Error("a written item is withdrawn")
	}
}

// What is pushed while writing fails is told too.
func TestFail(t *testing.T) {
	o := outbox.New(&brokenConn{}, time.Second, time.Now)
	i := items()[2]
	if err := i.push(o); err != nil {
		t.Fatal(err)
	}
	o.Fail(errBroken)
	if err := o.Run(); !errors.Is(err, errBroken) {
		t.Errorf("run: %v", err)
	}
	if i.closed != 1 || len(i.told) != 1 || i.told[0] {
		t.Errorf("closed %d times, told %v", i.closed, i.told)
	}
}
