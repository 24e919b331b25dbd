package faultfs_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/libs/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FS {
		f := faultfs.New(memfs.New(), clock.Real())
		f.Add(faultfs.Rule{Path: "no-such-file", Err: syscall.EIO})
		return f
	})
}

func newFS(t *testing.T) (*faultfs.FS, *memfs.FS, vfs.File) {
	t.Helper()
	mem := memfs.New()
	f := faultfs.New(mem, clock.Real())
	if err := f.MkdirAll("dir"); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open("dir/a.log", vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	return f, mem, file
}

func TestRulePicksItsCalls(t *testing.T) {
	f, _, file := newFS(t)
	other, err := f.Open("dir/b.idx", vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	rule := f.Add(faultfs.Rule{Ops: faultfs.Write | faultfs.Sync, Path: "*.log", First: 3, Count: 2, Err: syscall.EIO})
	f.Add(faultfs.Rule{Ops: faultfs.Truncate, Path: "dir/*", Err: syscall.ENOSPC})
	var got []bool
	for range 3 { // matching calls 1 to 6
		_, err := file.WriteAt([]byte("x"), 0)
		got = append(got, err != nil)
		got = append(got, file.Sync() != nil)
		if _, err := other.WriteAt([]byte("x"), 0); err != nil {
			t.Error("hit another file")
		}
		if _, err := file.ReadAt(make([]byte, 1), 0); err != nil {
			t.Error("hit another operation")
		}
	}
	if diff := cmp.Diff([]bool{false, false, true, true, false, false}, got); diff != "" {
		t.Error(diff)
	}
	if rule.Hits() != 2 {
		t.Errorf("%d hits", rule.Hits())
	}
	if err := other.Truncate(0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a pattern with a slash: %v", err)
	}
}

func TestEveryOperationCanFail(t *testing.T) {
	for name, do := range map[string]func(f *faultfs.FS, file vfs.File) error{
		"open":       func(f *faultfs.FS, _ vfs.File) error { _, err := f.Open("x", vfs.Create); return err },
		"remove":     func(f *faultfs.FS, _ vfs.File) error { return f.Remove("dir/a.log") },
		"remove all": func(f *faultfs.FS, _ vfs.File) error { return f.RemoveAll("dir") },
		"rename":     func(f *faultfs.FS, _ vfs.File) error { return f.Rename("dir", "d") },
		"mkdir":      func(f *faultfs.FS, _ vfs.File) error { return f.MkdirAll("x") },
		"sync dir":   func(f *faultfs.FS, _ vfs.File) error { return f.SyncDir("dir") },
		"sync all":   func(f *faultfs.FS, _ vfs.File) error { return f.SyncAll() },
		"list":       func(f *faultfs.FS, _ vfs.File) error { _, err := f.List("."); return err },
		"stat":       func(f *faultfs.FS, _ vfs.File) error { _, err := f.Stat("."); return err },
		"lock":       func(f *faultfs.FS, _ vfs.File) error { _, err := f.Lock("LOCK"); return err },
		"usage":      func(f *faultfs.FS, _ vfs.File) error { _, err := f.Usage(); return err },
		"read":       func(_ *faultfs.FS, file vfs.File) error { _, err := file.ReadAt(nil, 0); return err },
		"write":      func(_ *faultfs.FS, file vfs.File) error { _, err := file.WriteAt(nil, 0); return err },
		"writev":     func(_ *faultfs.FS, file vfs.File) error { _, err := file.Writev(nil, 0); return err },
		"sync":       func(_ *faultfs.FS, file vfs.File) error { return file.Sync() },
		"datasync":   func(_ *faultfs.FS, file vfs.File) error { return file.Datasync() },
		"truncate":   func(_ *faultfs.FS, file vfs.File) error { return file.Truncate(9) },
		"allocate":   func(_ *faultfs.FS, file vfs.File) error { return file.Allocate(0, 9) },
		"send":       func(_ *faultfs.FS, file vfs.File) error { _, err := file.SendTo(nil, 0, 0); return err },
	} {
		f, mem, file := newFS(t)
		rule := f.Add(faultfs.Rule{Err: syscall.EIO})
		if err := do(f, file); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := mem.List("."); !cmp.Equal(names, []string{"dir"}) {
			t.Errorf("%s was carried out: %v", name, names)
		}
		rule.Remove()
		if f.SyncAll() != nil {
			t.Error("a removed rule is in force")
		}
	}
}

func TestShortWrite(t *testing.T) {
	f, mem, file := newFS(t)
	f.Add(faultfs.Rule{Ops: faultfs.Write, Err: syscall.ENOSPC, Short: 5})
	n, err := file.Writev([][]byte{[]byte("abc"), []byte("defg")}, 10)
	if n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if info, _ := mem.Stat("dir/a.log"); info.Size != 15 {
		t.Errorf("size %d", info.Size)
	}
}

func TestFailedSyncLosesThePages(t *testing.T) {
	f, mem, file := newFS(t)
	if err := f.SyncAll(); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{"sync": file.Datasync, "sync all": f.SyncAll} {
		if _, err := file.WriteAt([]byte("lost"), 0); err != nil {
			t.Fatal(err)
		}
		rule := f.Add(faultfs.Rule{Err: syscall.EIO})
		if do() == nil {
			t.Errorf("%s did not fail", name)
		}
		rule.Remove()
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
		if info, _ := mem.CrashNone().Stat("dir/a.log"); info.Size != 0 {
			t.Errorf("%s: the second sync made %d bytes durable", name, info.Size)
		}
	}
	rule := f.Add(faultfs.Rule{Ops: faultfs.SyncDir, Err: syscall.EIO})
	if err := f.Rename("dir/a.log", "dir/b.log"); err != nil {
		t.Fatal(err)
	}
	if f.SyncDir("dir") == nil {
		t.Error("sync dir did not fail")
	}
	rule.Remove()
	if err := f.SyncDir("dir"); err != nil {
		t.Fatal(err)
	}
	if names, _ := mem.CrashNone().List("dir"); !cmp.Equal(names, []string{"a.log"}) {
		t.Errorf("the second sync of the directory made %v durable", names)
	}
}

func TestDelayAndHang(t *testing.T) {
	m := clock.NewManual(time.Time{})
	f := faultfs.New(memfs.New(), m)
	hung := make(chan struct{})
	f.Add(faultfs.Rule{Delay: time.Minute, Count: 1})
	f.Add(faultfs.Rule{Until: hung, First: 2})
	done := make(chan error)
	go func() { done <- f.SyncAll() }()
	if err := m.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	m.Advance(time.Minute)
	if err := <-done; err != nil {
		t.Errorf("a delayed call fails: %v", err)
	}
	go func() { done <- f.SyncAll() }()
	select {
	case <-done:
		t.Error("a hung call returned")
	default:
	}
	close(hung)
	if err := <-done; err != nil {
		t.Errorf("a call that was hung fails: %v", err)
	}
}

func TestObserve(t *testing.T) {
	f, _, file := newFS(t)
	var got []faultfs.Call
	f.Observe(func(c faultfs.Call) { got = append(got, c) })
	_, _ = file.WriteAt([]byte("abc"), 7)
	_ = f.SyncDir("dir")
	want := []faultfs.Call{
		{Number: 3, Op: faultfs.Write, Path: "dir/a.log", Off: 7, Len: 3},
		{Number: 4, Op: faultfs.SyncDir, Path: "dir"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if f.Calls() != 4 {
		t.Errorf("%d calls", f.Calls())
	}
}
