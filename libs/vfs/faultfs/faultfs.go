package faultfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs"
)

// FS fails by rule.
type FS struct {
	inner vfs.FS
	clock clock.Clock
	mu    struct {
		sync.Mutex
		rules   []*Active // in the order of Add: the first that hits decides
		calls   int
		observe func(Call)
	}
}

var _ vfs.FS = (*FS)(nil)

// New puts a file system without rules around inner. Delays pass on c.
func New(inner vfs.FS, c clock.Clock) *FS { return &FS{inner: inner, clock: c} }

// Add puts a rule in force. A pattern that path.Match refuses is a programmer's error and panics.
func (f *FS) Add(r Rule) *Active {
	if _, err := path.Match(r.Path, ""); err != nil {
		panic(fmt.Sprintf("faultfs: pattern %q: %v", r.Path, err))
	}
	a := &Active{fs: f, rule: r}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, a)
	return a
}

func (f *FS) remove(a *Active) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = slices.DeleteFunc(f.mu.rules, func(b *Active) bool { return a == b })
}

// Observe has do called before each call is carried out, one at a time; nil ends it. do may use the file system below, not this one.
func (f *FS) Observe(do func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.observe = do
}

// Calls tells how many calls there were.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// enter numbers the call, waits as a rule says and gives the rule that makes it fail, if one does.
func (f *FS) enter(c Call) *Rule {
	rule := f.decide(c)
	if rule == nil {
		return nil
	}
	if rule.Delay > 0 {
		<-f.clock.NewTimer(rule.Delay).C()
	}
	if rule.Until != nil {
		<-rule.Until
	}
	if rule.Err == nil {
		return nil
	}
	return rule
}

func (f *FS) decide(c Call) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls++
	c.Number = f.mu.calls
	if f.mu.observe != nil {
		f.mu.observe(c)
	}
	var hit *Rule
	for _, a := range f.mu.rules {
		if !a.rule.matches(c) {
			continue
		}
		a.seen++
		if first, last := a.window(); hit == nil && a.seen >= first && a.seen <= last {
			hit = &a.rule
		}
	}
	return hit
}

func (f *FS) fail(op, name string, r *Rule) error {
	return &fs.PathError{Op: op, Path: f.inner.Name(name), Err: r.Err}
}

// Open opens a file.
func (f *FS) Open(name string, flags vfs.Flag) (vfs.File, error) {
	if r := f.enter(Call{Op: Open, Path: name}); r != nil {
		return nil, f.fail("open", name, r)
	}
	inner, err := f.inner.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name}, nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	if r := f.enter(Call{Op: Remove, Path: name}); r != nil {
		return f.fail("remove", name, r)
	}
	return f.inner.Remove(name)
}

// RemoveAll removes a tree.
func (f *FS) RemoveAll(name string) error {
	if r := f.enter(Call{Op: Remove, Path: name}); r != nil {
		return f.fail("remove", name, r)
	}
	return f.inner.RemoveAll(name)
}

// Rename replaces newName with oldName.
func (f *FS) Rename(oldName, newName string) error {
	if r := f.enter(Call{Op: Rename, Path: oldName}); r != nil {
		return f.fail("rename", oldName, r)
	}
	return f.inner.Rename(oldName, newName)
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(name string) error {
	if r := f.enter(Call{Op: Mkdir, Path: name}); r != nil {
		return f.fail("make directory", name, r)
	}
	return f.inner.MkdirAll(name)
}

// SyncDir makes the entries of a directory durable.
func (f *FS) SyncDir(name string) error {
	if r := f.enter(Call{Op: SyncDir, Path: name}); r != nil {
		if lossy, ok := f.inner.(interface{ FailSyncDir(name string) }); ok {
			lossy.FailSyncDir(name)
		}
		return f.fail("sync directory", name, r)
	}
	return f.inner.SyncDir(name)
}

// SyncAll makes everything durable.
func (f *FS) SyncAll() error {
	if r := f.enter(Call{Op: SyncAll, Path: "."}); r != nil {
		if lossy, ok := f.inner.(interface{ FailSyncAll() }); ok {
			lossy.FailSyncAll()
		}
		return f.fail("sync", ".", r)
	}
	return f.inner.SyncAll()
}

// List gives the names in a directory.
func (f *FS) List(name string) ([]string, error) {
	if r := f.enter(Call{Op: List, Path: name}); r != nil {
		return nil, f.fail("list", name, r)
	}
	return f.inner.List(name)
}

// Stat tells size and kind.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if r := f.enter(Call{Op: Stat, Path: name}); r != nil {
		return vfs.Info{}, f.fail("stat", name, r)
	}
	return f.inner.Stat(name)
}

// Lock takes an exclusive lock on a file.
func (f *FS) Lock(name string) (io.Closer, error) {
	if r := f.enter(Call{Op: Lock, Path: name}); r != nil {
		return nil, f.fail("lock", name, r)
	}
	return f.inner.Lock(name)
}

// Usage tells the size and free bytes of the volume.
func (f *FS) Usage() (vfs.Usage, error) {
	if r := f.enter(Call{Op: Usage, Path: "."}); r != nil {
		return vfs.Usage{}, f.fail("stat volume", ".", r)
	}
	return f.inner.Usage()
}

// Name gives the inner file system's.
func (f *FS) Name(name string) string { return f.inner.Name(name) }
