package memfs

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs"
)

// defaultCapacity is a volume that no test fills by accident.
const defaultCapacity = 1 << 40

// FS is a volume in memory.
type FS struct {
	clock  clock.Clock
	volume volume
	mu     struct {
		sync.Mutex
		root *node
		log  []*dirOp // unfolded, oldest first
	}
}

var _ vfs.FS = (*FS)(nil)

// Option changes what New makes.
type Option func(*FS)

// Capacity sets the volume's size in bytes; a write beyond it is ENOSPC.
func Capacity(bytes int64) Option { return func(f *FS) { f.volume.capacity = bytes } }

// Clock sets what ModTime is taken from; without it, the real one.
func Clock(c clock.Clock) Option { return func(f *FS) { f.clock = c } }

// New makes an empty file system.
func New(options ...Option) *FS {
	f := newFS(clock.Real(), defaultCapacity)
	for _, option := range options {
		option(f)
	}
	return f
}

func newFS(c clock.Clock, capacity int64) *FS {
	f := &FS{clock: c}
	f.volume.capacity = capacity
	f.mu.root = newDir(c.Now())
	return f
}

// Name gives "mem:" and the path.
func (f *FS) Name(name string) string { return "mem:" + path.Clean(name) }

func (f *FS) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.Name(name), Err: err}
}

// Open opens a file. Its handle is a *File.
func (f *FS) Open(name string, flags vfs.Flag) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target, err := f.openLocked(name, flags)
	if err != nil {
		return nil, f.explain("open", name, err)
	}
	target.handles++
	return &File{fs: f, node: target, name: name, write: flags&vfs.Write != 0, direct: flags&vfs.Direct != 0}, nil
}

func (f *FS) openLocked(name string, flags vfs.Flag) (*node, error) {
	dir, base, err := f.parentLocked(name)
	if err != nil {
		return nil, err
	}
	target := dir.live[base]
	switch {
	case target == nil && flags&vfs.Create == 0:
		return nil, fs.ErrNotExist
	case target != nil && flags&vfs.Exclusive != 0:
		return nil, fs.ErrExist
	case target != nil && target.dir:
		return nil, syscall.EISDIR
	case target == nil:
		target = &node{content: newContent(&f.volume), modTime: f.clock.Now()}
		f.doLocked(&dirOp{newDir: dir, newName: base, target: target})
	}
	return target, nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parentLocked(name)
	if err == nil {
		err = f.removeLocked(dir, base)
	}
	return f.explain("remove", name, err)
}

// RemoveAll removes a tree.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.findLocked(name); err == fs.ErrNotExist { //nolint:errorlint // findLocked gives it bare
		return nil
	}
	dir, base, err := f.parentLocked(name)
	if err == nil {
		err = f.removeAllLocked(dir, base)
	}
	return f.explain("remove", name, err)
}

// Rename replaces newName with oldName.
func (f *FS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.explain("rename", oldName, f.renameLocked(oldName, newName))
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts, err := split(name)
	if err != nil {
		return f.explain("make directory", name, err)
	}
	at := f.mu.root
	for _, part := range parts {
		next := at.live[part]
		if next == nil {
			next = newDir(f.clock.Now())
			f.doLocked(&dirOp{newDir: at, newName: part, target: next})
		}
		if !next.dir {
			return f.explain("make directory", name, syscall.ENOTDIR)
		}
		at = next
	}
	return nil
}

// SyncDir makes the entries of a directory durable.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.dirLocked(name)
	if err != nil {
		return f.explain("sync directory", name, err)
	}
	f.syncDirLocked(dir)
	return nil
}

func (f *FS) dirLocked(name string) (*node, error) {
	dir, err := f.findLocked(name)
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	return dir, err
}

// FailSyncDir is what a failed SyncDir leaves: the operations so far may be there, and no later sync proves it.
func (f *FS) FailSyncDir(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.dirLocked(name)
	if err != nil {
		return
	}
	for _, op := range f.mu.log {
		op.lost = op.lost || slices.Contains(op.unsynced, dir)
	}
}

// SyncAll makes everything durable.
func (f *FS) SyncAll() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range f.mu.log {
		if !op.lost {
			op.unsynced = nil
		}
	}
	f.foldLocked()
	f.mu.root.each(func(c *content) { c.sync() })
	return nil
}

// FailSyncAll is what a failed SyncAll leaves.
func (f *FS) FailSyncAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range f.mu.log {
		op.lost = op.lost || len(op.unsynced) > 0
	}
	f.mu.root.each(func(c *content) { c.failSync() })
}

func (n *node) each(do func(*content)) {
	if !n.dir {
		do(n.content)
		return
	}
	for _, child := range n.live {
		child.each(do)
	}
}

// List gives the names in a directory, sorted.
func (f *FS) List(name string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.dirLocked(name)
	if err != nil {
		return nil, f.explain("list", name, err)
	}
	return sortedNames(dir.live), nil
}

func sortedNames(entries map[string]*node) []string { return slices.Sorted(maps.Keys(entries)) }

// Stat tells size and kind.
func (f *FS) Stat(name string) (vfs.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findLocked(strings.TrimSuffix(name, "/"))
	if err != nil {
		return vfs.Info{}, f.explain("stat", name, err)
	}
	info := vfs.Info{Dir: n.dir, ModTime: n.modTime}
	if !n.dir {
		info.Size = n.content.bytes()
	}
	return info, nil
}

// Lock takes an exclusive lock on a file.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.openLocked(name, vfs.Create)
	if err == nil && n.locked {
		err = vfs.ErrLocked
	}
	if err != nil {
		return nil, f.explain("lock", name, err)
	}
	n.locked = true
	return &lock{fs: f, node: n}, nil
}

type lock struct {
	fs   *FS
	node *node // nil once closed; guarded by fs.mu
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.node == nil {
		return fs.ErrClosed
	}
	l.node.locked = false
	l.node = nil
	return nil
}

// Usage tells the size and free bytes of the volume.
func (f *FS) Usage() (vfs.Usage, error) {
	total := max(0, f.volume.capacity)
	free := max(0, total-f.volume.used.Load())
	return vfs.Usage{Total: uint64(total), Free: uint64(free)}, nil
}
