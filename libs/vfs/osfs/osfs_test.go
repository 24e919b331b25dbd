package osfs_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/libs/vfs/vfstest"
)

func newFS(t *testing.T, dir string) *osfs.FS {
	t.Helper()
	f, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FS { return newFS(t, filepath.Join(t.TempDir(), "made", "by", "New")) })
}

func TestSymlinksStayInside(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := newFS(t, dir).Open("link", 0); err == nil {
		t.Error("followed a symbolic link to the outside")
	}
}

func TestLockHoldsAcrossFileSystems(t *testing.T) {
	dir := t.TempDir()
	a, b := newFS(t, dir), newFS(t, dir)
	lock, err := a.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock("LOCK"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("got %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = b.Lock("LOCK"); err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
}

func TestNewOnAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := osfs.New(path); err == nil {
		t.Error("made a file system of a file")
	}
	if _, err := osfs.New(filepath.Join(path, "below")); err == nil {
		t.Error("made a directory below a file")
	}
}

func TestNamesAndModes(t *testing.T) {
	dir := t.TempDir()
	f := newFS(t, dir)
	if got, want := f.Name("a/b"), filepath.Join(dir, "a", "b"); got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	if err := f.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open("d/f", vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	for name, want := range map[string]fs.FileMode{"d": 0o700, "d/f": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

// TestSendToKeepsDeadline: a peer that does not read must not hold sendfile for ever.
func TestSendToKeepsDeadline(t *testing.T) {
	f := newFS(t, t.TempDir())
	file, err := f.Open("a", vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(256 << 20); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := file.SendTo(out, 0, 256<<20); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
