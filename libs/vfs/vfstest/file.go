package vfstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/seedqueue/sq/libs/vfs"
)

// noise gives n bytes that repeat nowhere near a page's distance.
func noise(n int) []byte {
	out := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(out) // never fails
	return out
}

func testReadAndWrite(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	if n, err := file.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF { //nolint:errorlint // io.ReaderAt promises the bare io.EOF
		t.Errorf("reading nothing: %d, %v", n, err)
	}
	want := noise(10_000)
	for at := 0; at < len(want); at += 700 { // across pages
		n, err := file.WriteAt(want[at:min(at+700, len(want))], int64(at))
		must(t, err)
		if n != min(700, len(want)-at) {
			t.Fatalf("wrote %d", n)
		}
	}
	copy(want[4000:], "overwritten")
	_, err := file.WriteAt([]byte("overwritten"), 4000)
	must(t, err)
	got := make([]byte, len(want)+10)
	n, err := file.ReadAt(got, 0)
	if n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) { //nolint:errorlint // as above
		t.Errorf("read %d, %v", n, err)
	}
	n, err = file.ReadAt(got[:100], 4090)
	if n != 100 || err != nil || !bytes.Equal(got[:100], want[4090:4190]) {
		t.Errorf("read inside: %d, %v", n, err)
	}
	if _, err := file.ReadAt(got[:1], -1); err == nil {
		t.Error("read before the start")
	}
	if _, err := file.WriteAt(got[:1], -1); err == nil {
		t.Error("wrote before the start")
	}
	other := open(t, f, "a", 0)
	if size, err := other.Size(); err != nil || size != int64(len(want)) {
		t.Errorf("another handle sees %d bytes, %v", size, err)
	}
}

func testHoles(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	_, err := file.WriteAt([]byte("end"), 1<<20)
	must(t, err)
	got := make([]byte, 1<<20+3)
	_, err = file.ReadAt(got, 0)
	must(t, err)
	if !bytes.Equal(got[:1<<20], make([]byte, 1<<20)) || string(got[1<<20:]) != "end" {
		t.Error("a hole is not zeros")
	}
}

func testTruncate(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	text := noise(9000)
	_, err := file.WriteAt(text, 0)
	must(t, err)
	must(t, file.Truncate(5000))
	must(t, file.Truncate(9000)) // what was cut must not come back
	got := make([]byte, 9000)
	_, err = file.ReadAt(got, 0)
	must(t, err)
	if !bytes.Equal(got[:5000], text[:5000]) || !bytes.Equal(got[5000:], make([]byte, 4000)) {
		t.Error("truncating down and up leaves old bytes")
	}
	must(t, file.Truncate(0))
	if size, err := file.Size(); size != 0 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	if file.Truncate(-1) == nil {
		t.Error("truncated to a negative size")
	}
}

func testWritev(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	var buffers [][]byte
	want := noise(30_000)
	for at := 0; at < len(want); at += 13 { // more buffers than a system call takes
		buffers = append(buffers, want[at:min(at+13, len(want))], nil)
	}
	before := len(buffers[0])
	n, err := file.Writev(buffers, 100)
	must(t, err)
	if n != len(want) || len(buffers[0]) != before {
		t.Errorf("wrote %d of %d, first buffer is %d of %d", n, len(want), len(buffers[0]), before)
	}
	got := make([]byte, len(want))
	_, err = file.ReadAt(got, 100)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("read something else")
	}
	if n, err := file.Writev(nil, 0); n != 0 || err != nil {
		t.Errorf("writing nothing: %d, %v", n, err)
	}
}

func testAllocate(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	_, err := file.WriteAt([]byte("text"), 0)
	must(t, err)
	must(t, file.Allocate(0, 1<<20))
	must(t, file.Allocate(1<<20, 0))
	if size, err := file.Size(); size != 4 || err != nil {
		t.Errorf("size %d, %v: Allocate changed it", size, err)
	}
	if file.Allocate(-1, 10) == nil {
		t.Error("allocated before the start")
	}
}

func testDirect(t *testing.T, f vfs.FS) {
	want := noise(3 * 4096)
	file := open(t, f, "a", vfs.Write|vfs.Create|vfs.Direct)
	odd := make([]byte, 2*4096+1)[1:] // memory need not be aligned
	copy(odd, want)
	_, err := file.WriteAt(odd, 0)
	must(t, err)
	_, err = file.Writev([][]byte{want[2*4096:]}, 2*4096)
	must(t, err)
	must(t, file.Datasync())
	got := make([]byte, 2*4096+1)[1:]
	_, err = file.ReadAt(got, 4096)
	must(t, err)
	if !bytes.Equal(got, want[4096:]) {
		t.Error("read something else")
	}
	if n, err := file.ReadAt(got[:4096], 3*4096); n != 0 || err != io.EOF { //nolint:errorlint // io.ReaderAt promises the bare io.EOF
		t.Errorf("at the end: %d, %v", n, err)
	}
	for _, c := range []struct {
		n   int
		off int64
	}{{100, 0}, {4096, 100}} {
		_, err := file.ReadAt(make([]byte, c.n), c.off)
		is(t, err, fs.ErrInvalid)
		_, err = file.WriteAt(make([]byte, c.n), c.off)
		is(t, err, fs.ErrInvalid)
	}
	if got := content(t, f, "a"); got != string(want) {
		t.Error("another handle reads something else")
	}
}

func testSync(t *testing.T, f vfs.FS) {
	must(t, f.MkdirAll("d/e"))
	put(t, f, "d/e/file", "x")
	file := open(t, f, "d/e/file", vfs.Write)
	must(t, file.Sync())
	must(t, file.Datasync())
	must(t, f.SyncDir("d/e"))
	must(t, f.SyncDir("."))
	must(t, f.SyncAll())
	is(t, f.SyncDir("nothing"), fs.ErrNotExist)
}

func testSendTo(t *testing.T, f vfs.FS) {
	want := noise(200_000)
	put(t, f, "a", string(want))
	for _, flags := range []vfs.Flag{0, vfs.Direct} {
		file := open(t, f, "a", flags)
		var out bytes.Buffer
		if flags == 0 {
			n, err := file.SendTo(&out, 1000, 150_000)
			if n != 150_000 || err != nil || !bytes.Equal(out.Bytes(), want[1000:151_000]) {
				t.Errorf("sent %d, %v", n, err)
			}
		}
		out.Reset()
		n, err := file.SendTo(&out, 4096, 100_000)
		if n != 100_000 || err != nil || !bytes.Equal(out.Bytes(), want[4096:104_096]) {
			t.Errorf("sent %d, %v", n, err)
		}
		out.Reset()
		n, err = file.SendTo(&out, 196_608, 5000)
		if n != 3392 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("sent %d, %v beyond the end", n, err)
		}
		if n, err := file.SendTo(&out, 0, 0); n != 0 || err != nil {
			t.Errorf("sent %d, %v of nothing", n, err)
		}
		if _, err := file.SendTo(&out, -1, 5); err == nil {
			t.Error("sent from before the start")
		}
		if _, err := file.SendTo(failing{}, 0, 5); !errors.Is(err, errFailing) {
			t.Errorf("the writer's error became %v", err)
		}
	}
}

var errFailing = errors.New("writer fails")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

// testSendToTCP has two sendings from one handle at once: they must not share a position.
func testSendToTCP(t *testing.T, f vfs.FS) {
	want := noise(3 << 20)
	put(t, f, "a", string(want))
	file := open(t, f, "a", 0)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	var wg sync.WaitGroup
	for i := range 2 {
		from := int64(i * 1000)
		var d net.Dialer
		in, err := d.DialContext(context.Background(), "tcp", l.Addr().String())
		must(t, err)
		out, err := l.Accept()
		must(t, err)
		wg.Go(func() {
			defer func() { _ = out.Close() }()
			if n, err := file.SendTo(out, from, int64(len(want))-from); n != int64(len(want))-from || err != nil {
				t.Errorf("sent %d, %v", n, err)
			}
			if n, err := file.SendTo(out, int64(len(want))-10, 20); n != 10 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("sent %d, %v beyond the end", n, err)
			}
		})
		wg.Go(func() {
			defer func() { _ = in.Close() }()
			got, err := io.ReadAll(in)
			if err != nil || !bytes.Equal(got, append(want[from:len(want):len(want)], want[len(want)-10:]...)) {
				t.Errorf("received %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

func testClosed(t *testing.T, f vfs.FS) {
	put(t, f, "a", "x")
	file, err := f.Open("a", vfs.Write)
	must(t, err)
	must(t, file.Close())
	_, err = file.ReadAt(make([]byte, 1), 0)
	is(t, err, fs.ErrClosed)
	_, err = file.WriteAt(make([]byte, 1), 0)
	is(t, err, fs.ErrClosed)
	_, err = file.Writev([][]byte{{1}}, 0)
	is(t, err, fs.ErrClosed)
	_, err = file.Size()
	is(t, err, fs.ErrClosed)
	_, err = file.SendTo(io.Discard, 0, 1)
	is(t, err, fs.ErrClosed)
	is(t, file.Sync(), fs.ErrClosed)
	is(t, file.Datasync(), fs.ErrClosed)
	is(t, file.Truncate(0), fs.ErrClosed)
	is(t, file.Allocate(0, 1), fs.ErrClosed)
	is(t, file.Close(), fs.ErrClosed)
}

func testParallel(t *testing.T, f vfs.FS) {
	file := open(t, f, "a", vfs.Write|vfs.Create)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mine := bytes.Repeat([]byte{byte(i + 1)}, 1000)
			got := make([]byte, len(mine))
			for j := range 20 {
				at := int64(j*8+i) * 1000
				if _, err := file.WriteAt(mine, at); err != nil {
					t.Error(err)
				}
				if _, err := file.ReadAt(got, at); err != nil || !bytes.Equal(got, mine) {
					t.Errorf("read another's bytes, %v", err)
				}
				if err := file.Datasync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
