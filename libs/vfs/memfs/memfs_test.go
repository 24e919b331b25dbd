package memfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/libs/vfs/vfstest"
)

const page, sector = 4096, 512

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FS { return memfs.New() })
}

// TestConformanceAfterCrash: a survivor is a file system like any other.
func TestConformanceAfterCrash(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FS {
		f := memfs.New()
		write(t, f, "gone", 0, []byte("x"))
		return f.CrashNone()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, f *memfs.FS, name string) vfs.File {
	t.Helper()
	file, err := f.Open(name, vfs.Write|vfs.Create)
	must(t, err)
	return file
}

func write(t *testing.T, f *memfs.FS, name string, off int64, data []byte) vfs.File {
	t.Helper()
	file := open(t, f, name)
	_, err := file.WriteAt(data, off)
	must(t, err)
	return file
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// tree shows a file system as "name=content" lines; contents by runs of equal bytes.
func tree(t *testing.T, f *memfs.FS, dir string) string {
	t.Helper()
	names, err := f.List(dir)
	must(t, err)
	var out []string
	for _, name := range names {
		path := dir + "/" + name
		info, err := f.Stat(path)
		must(t, err)
		if info.Dir {
			out = append(out, strings.TrimPrefix(path, "./")+"/", tree(t, f, path))
		} else {
			out = append(out, strings.TrimPrefix(path, "./")+"="+runs(read(t, f, path)))
		}
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

func read(t *testing.T, f *memfs.FS, path string) []byte {
	t.Helper()
	file, err := f.Open(path, 0)
	must(t, err)
	size, err := file.Size()
	must(t, err)
	out := make([]byte, size)
	if size > 0 {
		_, err = file.ReadAt(out, 0)
		must(t, err)
	}
	return out
}

func runs(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := 1
		for n < len(b) && b[n] == b[0] {
			n++
		}
		c := string(b[0])
		if b[0] == 0 {
			c = "0"
		}
		fmt.Fprintf(&out, "%s%d", c, n)
		b = b[n:]
	}
	return out.String()
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	f := memfs.New()
	must(t, f.MkdirAll("d"))
	must(t, f.SyncDir("."))
	file := write(t, f, "d/a", 0, fill('a', 2*page))
	must(t, file.Datasync())
	must(t, f.SyncDir("d"))
	_, err := file.WriteAt(fill('b', page+10), page)
	must(t, err)
	write(t, f, "d/new", 0, fill('n', 3))
	write(t, f, "top", 0, fill('t', 3))
	if got, want := tree(t, f.CrashNone(), "."), "d/ d/a=a8192"; got != want {
		t.Errorf("nothing unsynced: %s, want %s", got, want)
	}
	if got, want := tree(t, f.CrashAll(), "."), "d/ d/a=a4096b4106 d/new=n3 top=t3"; got != want {
		t.Errorf("everything: %s, want %s", got, want)
	}
	for seed := range uint64(500) {
		got := read(t, f.Crash(rand.New(rand.NewPCG(seed, 0))), "d/a")
		if len(got) < 2*page || !bytes.Equal(got[:page], fill('a', page)) {
			t.Fatalf("seed %d: a synced page is %s", seed, runs(got))
		}
		for at := page; at < len(got); at += sector {
			s := got[at:min(at+sector, len(got))]
			if b := s[0]; !bytes.Equal(s, fill(b, len(s))) || !strings.ContainsRune("ab\x00", rune(b)) {
				t.Fatalf("seed %d: a sector is torn: %s", seed, runs(s))
			}
		}
	}
}

// TestCrashReachesEveryKindOfState looks for each kind of damage that the fault model allows.
func TestCrashReachesEveryKindOfState(t *testing.T) {
	f := memfs.New()
	file := write(t, f, "a", 0, fill('1', 3*page))
	must(t, file.Sync())
	must(t, f.SyncDir("."))
	for _, b := range []byte("234") { // three versions of each page
		_, err := file.WriteAt(fill(b, 3*page), 0)
		must(t, err)
	}
	_, err := file.WriteAt(fill('4', 100), 3*page)
	must(t, err)
	must(t, f.Rename("a", "b"))
	seen := map[string]bool{}
	for seed := range uint64(3000) {
		c := f.Crash(rand.New(rand.NewPCG(seed, 0)))
		names, err := c.List(".")
		must(t, err)
		if len(names) != 1 {
			t.Fatalf("a rename was half done: %v", names)
		}
		seen["name "+names[0]] = true
		got := read(t, c, names[0])
		seen[fmt.Sprintf("size %d", len(got))] = true
		first := got[:page]
		if len(strings.TrimLeft(runs(first), "1234")) > 0 && strings.Count(runs(first), "512") == 0 && bytes.Equal(first, fill(first[0], page)) {
			seen["whole "+string(first[0])] = true
		} else {
			seen["torn"] = true
		}
		if got[0] == '4' && got[page] == '1' && got[2*page] == '4' {
			seen["middle page lost"] = true
		}
	}
	for _, want := range []string{
		"name a", "name b", "size 12288", "size 12388", "whole 1", "whole 2", "whole 3", "whole 4", "torn", "middle page lost",
	} {
		if !seen[want] {
			t.Errorf("never %s; seen %v", want, seen)
		}
	}
}

func TestCrashIsDeterminedBySeed(t *testing.T) {
	build := func() *memfs.FS {
		f := memfs.New()
		for i := range 20 {
			write(t, f, fmt.Sprint("f", i%7), int64(i)*1000, fill(byte('a'+i), 5000))
		}
		return f
	}
	for seed := range uint64(50) {
		a := tree(t, build().Crash(rand.New(rand.NewPCG(seed, 1))), ".")
		b := tree(t, build().Crash(rand.New(rand.NewPCG(seed, 1))), ".")
		if a != b {
			t.Fatalf("seed %d gives\n%s\nand\n%s", seed, a, b)
		}
	}
}

func TestCrashOfDirectories(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *memfs.FS)
		want string // with nothing unsynced
	}{
		{"create", func(f *memfs.FS) {
			must(t, write(t, f, "a", 0, fill('a', 1)).Sync())
		}, ""},
		{"create, sync dir", func(f *memfs.FS) {
			write(t, f, "a", 0, fill('a', 1))
			must(t, f.SyncDir("."))
		}, "a="},
		{"remove", func(f *memfs.FS) {
			must(t, write(t, f, "a", 0, fill('a', 1)).Sync())
			must(t, f.SyncDir("."))
			must(t, f.Remove("a"))
		}, "a=a1"},
		{"rename across, one side synced", func(f *memfs.FS) {
			must(t, f.MkdirAll("x"))
			must(t, f.MkdirAll("y"))
			must(t, write(t, f, "x/a", 0, fill('a', 1)).Sync())
			must(t, f.SyncDir("x"))
			must(t, f.SyncDir("."))
			must(t, f.Rename("x/a", "y/a"))
			must(t, f.SyncDir("y"))
		}, "x/ x/a=a1 y/"},
		{"rename across, both synced", func(f *memfs.FS) {
			must(t, f.MkdirAll("x"))
			must(t, f.MkdirAll("y"))
			must(t, write(t, f, "x/a", 0, fill('a', 1)).Sync())
			must(t, f.SyncDir("x"))
			must(t, f.SyncDir("."))
			must(t, f.Rename("x/a", "y/a"))
			must(t, f.SyncDir("y"))
			must(t, f.SyncDir("x"))
		}, "x/  y/ y/a=a1"},
		{"replace by rename", func(f *memfs.FS) {
			must(t, write(t, f, "a", 0, fill('1', 1)).Sync())
			must(t, f.SyncDir("."))
			must(t, write(t, f, "a.new", 0, fill('2', 1)).Sync())
			must(t, f.Rename("a.new", "a"))
		}, "a=11"},
		{"child synced, parent not", func(f *memfs.FS) {
			must(t, f.MkdirAll("d"))
			must(t, write(t, f, "d/a", 0, fill('a', 1)).Sync())
			must(t, f.SyncDir("d"))
		}, ""},
		{"sync all", func(f *memfs.FS) {
			must(t, f.MkdirAll("d/e"))
			write(t, f, "d/e/a", 0, fill('a', 1))
			must(t, f.SyncAll())
		}, "d/ d/e/ d/e/a=a1"},
		{"remove all", func(f *memfs.FS) {
			must(t, f.MkdirAll("d"))
			must(t, write(t, f, "d/a", 0, fill('a', 1)).Sync())
			must(t, f.SyncAll())
			must(t, f.RemoveAll("d"))
			must(t, f.SyncDir("."))
		}, ""}, // the entry of d/a is still there, but nothing leads to it
	} {
		t.Run(c.name, func(t *testing.T) {
			f := memfs.New()
			c.do(f)
			before := tree(t, f, ".")
			if got := tree(t, f.CrashNone(), "."); got != c.want {
				t.Errorf("nothing unsynced: %q, want %q", got, c.want)
			}
			if got := tree(t, f.CrashAll(), "."); got != before {
				t.Errorf("everything: %q, want %q", got, before)
			}
			if got := tree(t, f, "."); got != before {
				t.Errorf("crashing changed the original to %q", got)
			}
		})
	}
}

func TestFailedSyncProvesNothing(t *testing.T) {
	f := memfs.New()
	file := write(t, f, "a", 0, fill('1', 2*page))
	must(t, file.Sync())
	must(t, f.SyncDir("."))
	_, err := file.WriteAt(fill('2', 2*page), 0)
	must(t, err)
	file.(*memfs.File).FailSync()
	must(t, file.Sync()) // succeeds, and does nothing
	if got := tree(t, f.CrashNone(), "."); got != "a=18192" {
		t.Errorf("after a second sync: %s", got)
	}
	if got := tree(t, f, "."); got != "a=28192" {
		t.Errorf("the running system sees %s", got)
	}
	_, err = file.WriteAt(fill('3', 10), 0)
	must(t, err)
	must(t, file.Sync())
	if got := tree(t, f.CrashNone(), "."); got != "a=3102408614096" {
		t.Errorf("a page written again: %s", got)
	}
	must(t, f.Rename("a", "b"))
	f.FailSyncDir(".")
	must(t, f.SyncDir("."))
	if got := tree(t, f.CrashNone(), "."); !strings.HasPrefix(got, "a=") {
		t.Errorf("a rename after a failed and a second sync: %s", got)
	}
}

func TestFailedSyncAllProvesNothing(t *testing.T) {
	f := memfs.New()
	must(t, f.SyncAll())
	file := write(t, f, "a", 0, fill('1', 1))
	f.FailSyncAll()
	must(t, f.SyncAll())
	must(t, file.Sync())
	must(t, f.SyncDir("."))
	if got := tree(t, f.CrashNone(), "."); got != "" {
		t.Errorf("made durable by a second sync: %s", got)
	}
}

func TestTruncateIsNotDurableByItself(t *testing.T) {
	f := memfs.New()
	file := write(t, f, "a", 0, fill('1', 2*page))
	must(t, file.Sync())
	must(t, f.SyncDir("."))
	must(t, file.Truncate(100))
	if got := tree(t, f.CrashNone(), "."); got != "a=18192" {
		t.Errorf("unsynced: %s", got)
	}
	must(t, file.Sync())
	if got := tree(t, f.CrashNone(), "."); got != "a=1100" {
		t.Errorf("synced: %s", got)
	}
}

func TestLocksEndWithTheCrash(t *testing.T) {
	f := memfs.New()
	if _, err := f.Lock("LOCK"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.CrashAll().Lock("LOCK"); err != nil {
		t.Errorf("after the process is gone: %v", err)
	}
}

func TestCapacity(t *testing.T) {
	f := memfs.New(memfs.Capacity(3 * page))
	file := write(t, f, "a", 0, fill('a', 2*page))
	n, err := file.WriteAt(fill('a', 2*page), 2*page)
	if n != page || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d, %v on a full volume", n, err)
	}
	usage, err := f.Usage()
	must(t, err)
	if diff := cmp.Diff(vfs.Usage{Total: 3 * page}, usage); diff != "" {
		t.Error(diff)
	}
	if err := file.Allocate(3*page, page); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("allocate: %v", err)
	}
	must(t, file.Truncate(page))
	must(t, file.Allocate(page, page))
	if usage, _ = f.Usage(); usage.Free != page {
		t.Errorf("%d bytes free behind an allocation", usage.Free)
	}
	if usage, _ = f.CrashNone().Usage(); usage.Free != 3*page {
		t.Errorf("%d bytes free where the file is lost", usage.Free)
	}
	if usage, _ = f.CrashAll().Usage(); usage.Free != page {
		t.Errorf("%d bytes free where it is kept", usage.Free)
	}
	_, err = file.WriteAt(fill('b', page), page) // in its own room
	must(t, err)
	if usage, _ = f.Usage(); usage.Free != page {
		t.Errorf("%d bytes free when the allocation is used", usage.Free)
	}
	must(t, file.Truncate(page))
	must(t, f.Remove("a"))
	usage, _ = f.Usage()
	if usage.Free != 2*page {
		t.Errorf("%d bytes free while the removed file is open", usage.Free)
	}
	must(t, file.Close())
	if usage, _ = f.Usage(); usage.Free != 3*page {
		t.Errorf("%d bytes free when it is closed", usage.Free)
	}
	write(t, f, "b", 0, fill('b', 3*page))
	survivor := f.CrashAll()
	if usage, _ = survivor.Usage(); usage.Free != 0 {
		t.Errorf("%d bytes free in the survivor", usage.Free)
	}
	must(t, survivor.Rename("b", "c"))
	if usage, _ = survivor.Usage(); usage.Free != 0 {
		t.Errorf("%d bytes free in the survivor after a rename", usage.Free)
	}
	must(t, survivor.Remove("c"))
	if usage, _ = survivor.Usage(); usage.Free != 3*page {
		t.Errorf("%d bytes free in the survivor after a removal", usage.Free)
	}
}

// TestCutTailStaysCut: bytes beyond the surviving size are not there when the file grows again.
func TestCutTailStaysCut(t *testing.T) {
	f := memfs.New()
	file := write(t, f, "a", 0, fill('1', 100))
	must(t, file.Sync())
	must(t, f.SyncDir("."))
	_, err := file.WriteAt(fill('2', 100), 100)
	must(t, err)
	cut := 0
	for seed := range uint64(200) {
		c := f.Crash(rand.New(rand.NewPCG(seed, 0)))
		if len(read(t, c, "a")) != 100 {
			continue
		}
		cut++
		must(t, open(t, c, "a").Truncate(200))
		if got := runs(read(t, c, "a")); got != "11000100" {
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
	if cut == 0 {
		t.Error("no seed keeps the old size")
	}
}
