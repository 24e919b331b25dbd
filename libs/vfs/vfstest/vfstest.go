package vfstest

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/vfs"
)

// Run tests the file system that home gives, a fresh and empty one for each part.
func Run(t *testing.T, home func(t *testing.T) vfs.FS) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, vfs.FS){
		"OpenFlags":       testOpenFlags,
		"PathsStayInside": testPathsStayInside,
		"ErrorsSayWhere":  testErrorsSayWhere,
		"Directories":     testDirectories,
		"Remove":          testRemove,
		"RemoveOpenFile":  testRemoveOpenFile,
		"Rename":          testRename,
		"RenameTrees":     testRenameTrees,
		"Lock":            testLock,
		"Usage":           testUsage,
		"ReadAndWrite":    testReadAndWrite,
		"Holes":           testHoles,
		"Truncate":        testTruncate,
		"Writev":          testWritev,
		"Allocate":        testAllocate,
		"Direct":          testDirect,
		"Sync":            testSync,
		"SendTo":          testSendTo,
		"SendToTCP":       testSendToTCP,
		"Closed":          testClosed,
		"Parallel":        testParallel,
	} {
		t.Run(name, func(t *testing.T) { test(t, home(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, f vfs.FS, name string, flags vfs.Flag) vfs.File {
	t.Helper()
	file, err := f.Open(name, flags)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func put(t *testing.T, f vfs.FS, name, text string) {
	t.Helper()
	file, err := f.Open(name, vfs.Write|vfs.Create)
	must(t, err)
	must(t, file.Truncate(0))
	_, err = file.WriteAt([]byte(text), 0)
	must(t, err)
	must(t, file.Close())
}

func content(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	file, err := f.Open(name, 0)
	must(t, err)
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	must(t, err)
	out := make([]byte, size)
	if size > 0 {
		_, err = file.ReadAt(out, 0)
		must(t, err)
	}
	return string(out)
}

func list(t *testing.T, f vfs.FS, name string) []string {
	t.Helper()
	names, err := f.List(name)
	must(t, err)
	return names
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func testOpenFlags(t *testing.T, f vfs.FS) {
	_, err := f.Open("a", 0)
	is(t, err, fs.ErrNotExist)
	_, err = f.Open("a", vfs.Write)
	is(t, err, fs.ErrNotExist)
	_, err = f.Open("dir/a", vfs.Write|vfs.Create)
	is(t, err, fs.ErrNotExist)
	put(t, f, "a", "text")
	_, err = f.Open("a", vfs.Write|vfs.Create|vfs.Exclusive)
	is(t, err, fs.ErrExist)
	open(t, f, "a", vfs.Write|vfs.Create)
	open(t, f, "b", vfs.Write|vfs.Create|vfs.Exclusive)
	if got := content(t, f, "a"); got != "text" {
		t.Errorf("opening changed it to %q", got)
	}
	reader := open(t, f, "a", 0)
	if _, err := reader.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a file opened for reading")
	}
	if err := reader.Truncate(0); err == nil {
		t.Error("truncated a file opened for reading")
	}
	must(t, f.MkdirAll("dir"))
	if _, err := f.Open("dir", 0); err == nil {
		t.Error("opened a directory")
	}
}

func testPathsStayInside(t *testing.T, f vfs.FS) {
	for _, name := range []string{"../x", "/x", "a/../../x", ""} {
		if _, err := f.Open(name, vfs.Write|vfs.Create); err == nil {
			t.Errorf("opened %q", name)
		}
		if err := f.MkdirAll(name + "/d"); name != "" && err == nil {
			t.Errorf("made %q", name+"/d")
		}
	}
	put(t, f, "inside", "x")
	if err := f.Rename("inside", "../outside"); err == nil {
		t.Error("renamed to the outside")
	}
}

func testErrorsSayWhere(t *testing.T, f vfs.FS) {
	_, err := f.Open("some/file", 0)
	pathError, ok := errors.AsType[*fs.PathError](err)
	if !ok || pathError.Path != f.Name("some/file") || pathError.Op != "open" {
		t.Errorf("got %v (%T)", err, err)
	}
	err = f.Rename("some/file", "other")
	pathError, ok = errors.AsType[*fs.PathError](err)
	if !ok || pathError.Path != f.Name("some/file") || pathError.Op != "rename" {
		t.Errorf("got %v (%T)", err, err)
	}
}

func testDirectories(t *testing.T, f vfs.FS) {
	must(t, f.MkdirAll("a/b/c"))
	must(t, f.MkdirAll("a/b"))
	must(t, f.MkdirAll("."))
	for _, name := range []string{"z", "m", "a/file", "k"} {
		put(t, f, name, name)
	}
	if diff := cmp.Diff([]string{"a", "k", "m", "z"}, list(t, f, ".")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "file"}, list(t, f, "a")); diff != "" {
		t.Error(diff)
	}
	info, err := f.Stat("a")
	must(t, err)
	if !info.Dir || info.Size != 0 {
		t.Errorf("directory: %+v", info)
	}
	info, err = f.Stat("a/file")
	must(t, err)
	if info.Dir || info.Size != 6 || info.ModTime.IsZero() {
		t.Errorf("file: %+v", info)
	}
	_, err = f.Stat("nothing")
	is(t, err, fs.ErrNotExist)
	_, err = f.List("nothing")
	is(t, err, fs.ErrNotExist)
	if _, err = f.List("z"); err == nil {
		t.Error("listed a file")
	}
	if err := f.MkdirAll("z/d"); err == nil {
		t.Error("made a directory below a file")
	}
}

func testRemove(t *testing.T, f vfs.FS) {
	must(t, f.MkdirAll("a/b"))
	put(t, f, "a/b/file", "x")
	is(t, f.Remove("nothing"), fs.ErrNotExist)
	if f.Remove("a") == nil {
		t.Error("removed a directory that is not empty")
	}
	must(t, f.Remove("a/b/file"))
	must(t, f.Remove("a/b"))
	put(t, f, "a/file", "x")
	must(t, f.MkdirAll("a/c/d"))
	must(t, f.RemoveAll("a"))
	must(t, f.RemoveAll("a"))
	must(t, f.RemoveAll("nothing/at/all"))
	if got := list(t, f, "."); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func testRemoveOpenFile(t *testing.T, f vfs.FS) {
	put(t, f, "a", "text")
	reader := open(t, f, "a", 0)
	must(t, f.Remove("a"))
	put(t, f, "a", "another")
	got := make([]byte, 4)
	if _, err := reader.ReadAt(got, 0); err != nil || string(got) != "text" {
		t.Errorf("read %q, %v from a removed file", got, err)
	}
}

func testRename(t *testing.T, f vfs.FS) {
	put(t, f, "a", "new")
	put(t, f, "b", "old")
	reader := open(t, f, "b", 0)
	must(t, f.Rename("a", "b"))
	if got := content(t, f, "b"); got != "new" {
		t.Errorf("b is %q", got)
	}
	got := make([]byte, 3)
	if _, err := reader.ReadAt(got, 0); err != nil || string(got) != "old" {
		t.Errorf("the replaced file reads %q, %v", got, err)
	}
	_, err := f.Stat("a")
	is(t, err, fs.ErrNotExist)
	must(t, f.Rename("b", "b"))
	must(t, f.MkdirAll("dir"))
	must(t, f.Rename("b", "dir/c"))
	if got := content(t, f, "dir/c"); got != "new" {
		t.Errorf("dir/c is %q", got)
	}
	is(t, f.Rename("b", "c"), fs.ErrNotExist)
	is(t, f.Rename("dir/c", "nothing/c"), fs.ErrNotExist)
}

func testRenameTrees(t *testing.T, f vfs.FS) {
	must(t, f.MkdirAll("a/b"))
	put(t, f, "a/b/file", "x")
	must(t, f.MkdirAll("empty"))
	must(t, f.MkdirAll("full/d"))
	put(t, f, "file", "y")
	if f.Rename("a", "a/b/inside") == nil {
		t.Error("moved a directory into itself")
	}
	if f.Rename("a", "full") == nil {
		t.Error("replaced a directory that is not empty")
	}
	if f.Rename("a", "file") == nil {
		t.Error("replaced a file by a directory")
	}
	if f.Rename("file", "empty") == nil {
		t.Error("replaced a directory by a file")
	}
	if f.Rename("a", "empty") == nil {
		t.Error("replaced a directory")
	}
	must(t, f.Rename("a", "empty/c"))
	if got := content(t, f, "empty/c/b/file"); got != "x" {
		t.Errorf("moved file is %q", got)
	}
	if got := list(t, f, "."); !slices.Equal(got, []string{"empty", "file", "full"}) {
		t.Errorf("left %v", got)
	}
}

func testLock(t *testing.T, f vfs.FS) {
	lock, err := f.Lock("LOCK")
	must(t, err)
	_, err = f.Lock("LOCK")
	is(t, err, vfs.ErrLocked)
	is(t, err, fs.ErrExist)
	other, err := f.Lock("OTHER")
	must(t, err)
	must(t, lock.Close())
	again, err := f.Lock("LOCK")
	must(t, err)
	must(t, again.Close())
	must(t, other.Close())
	if lock.Close() == nil {
		t.Error("second Close succeeded")
	}
}

func testUsage(t *testing.T, f vfs.FS) {
	usage, err := f.Usage()
	must(t, err)
	if usage.Total == 0 || usage.Free > usage.Total {
		t.Errorf("got %+v", usage)
	}
}
