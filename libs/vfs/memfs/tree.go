package memfs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a file or a directory, with or without a name that leads to it. Guarded by FS.mu, but for content.
type node struct {
	dir     bool
	content *content // of a file
	modTime time.Time
	// live has a directory's entries as seen; stable as the synced directory operations left them.
	live, stable map[string]*node
	locked       bool
	handles      int
	names        int // how many live entries lead here
}

func newDir(now time.Time) *node {
	return &node{dir: true, modTime: now, live: map[string]*node{}, stable: map[string]*node{}}
}

// dirOp is a directory operation that is not folded into stable yet.
type dirOp struct {
	// oldDir/oldName lose target where oldDir is set; newDir/newName get it where newDir is set.
	oldDir, newDir   *node
	oldName, newName string
	target           *node
	// unsynced has the directories whose sync is still to come.
	unsynced []*node
	// lost: a sync of it failed, so none proves anything any more.
	lost bool
}

// durable never becomes true of a lost one.
func (op *dirOp) durable() bool { return len(op.unsynced) == 0 }

func (op *dirOp) apply(entries func(*node) map[string]*node) {
	if op.oldDir != nil {
		if from := entries(op.oldDir); from[op.oldName] == op.target {
			delete(from, op.oldName)
		}
	}
	if op.newDir != nil {
		entries(op.newDir)[op.newName] = op.target
	}
}

// doLocked carries out an operation and remembers it.
func (f *FS) doLocked(op *dirOp) {
	now := f.clock.Now()
	for _, dir := range []*node{op.oldDir, op.newDir} {
		if dir != nil && !slices.Contains(op.unsynced, dir) {
			op.unsynced = append(op.unsynced, dir)
			dir.modTime = now
		}
	}
	if op.newDir != nil {
		if replaced := op.newDir.live[op.newName]; replaced != nil {
			replaced.names--
			replaced.releaseIfGone()
		}
		op.target.names++
	}
	if op.oldDir != nil {
		op.target.names--
	}
	op.apply(func(n *node) map[string]*node { return n.live })
	op.target.releaseIfGone()
	f.mu.log = append(f.mu.log, op)
}

// releaseIfGone frees the volume's room when neither a name nor a handle is left; crash states keep the bytes.
func (n *node) releaseIfGone() {
	if !n.dir && n.names == 0 && n.handles == 0 {
		n.content.release()
	}
}

// syncDirLocked makes the operations in dir durable and folds what has nothing unsynced before it.
func (f *FS) syncDirLocked(dir *node) {
	for _, op := range f.mu.log {
		if !op.lost {
			op.unsynced = slices.DeleteFunc(op.unsynced, func(d *node) bool { return d == dir })
		}
	}
	f.foldLocked()
}

func (f *FS) foldLocked() {
	folded := 0
	for folded < len(f.mu.log) && f.mu.log[folded].durable() {
		f.mu.log[folded].apply(func(n *node) map[string]*node { return n.stable })
		folded++
	}
	f.mu.log = slices.Delete(f.mu.log, 0, folded)
}

var errEscapes = errors.New("path leads outside the root")

// split checks a path and gives its parts; none for the root.
func split(name string) ([]string, error) {
	if !filepath.IsLocal(name) {
		return nil, errEscapes
	}
	if name = path.Clean(name); name == "." {
		return nil, nil
	}
	return strings.Split(name, "/"), nil
}

func (f *FS) findLocked(name string) (*node, error) {
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	at := f.mu.root
	for _, part := range parts {
		if !at.dir {
			return nil, syscall.ENOTDIR
		}
		if at = at.live[part]; at == nil {
			return nil, fs.ErrNotExist
		}
	}
	return at, nil
}

// parentLocked finds the directory that holds name, and name's last part.
func (f *FS) parentLocked(name string) (*node, string, error) {
	parts, err := split(name)
	if err != nil {
		return nil, "", err
	}
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err := f.findLocked(strings.Join(append([]string{"."}, parts[:len(parts)-1]...), "/"))
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], nil
}

func (f *FS) removeLocked(dir *node, name string) error {
	target := dir.live[name]
	if target == nil {
		return fs.ErrNotExist
	}
	if target.dir && len(target.live) > 0 {
		return syscall.ENOTEMPTY
	}
	f.doLocked(&dirOp{oldDir: dir, oldName: name, target: target})
	return nil
}

func (f *FS) removeAllLocked(dir *node, name string) error {
	target := dir.live[name]
	if target == nil {
		return nil
	}
	for _, child := range sortedNames(target.live) {
		if err := f.removeAllLocked(target, child); err != nil {
			return err
		}
	}
	return f.removeLocked(dir, name)
}

func (f *FS) renameLocked(oldName, newName string) error {
	oldDir, oldBase, err := f.parentLocked(oldName)
	if err != nil {
		return err
	}
	target := oldDir.live[oldBase]
	if target == nil {
		return fs.ErrNotExist
	}
	newDir, newBase, err := f.parentLocked(newName)
	if err != nil {
		return err
	}
	replaced := newDir.live[newBase]
	switch {
	case replaced == target:
		return nil
	case target.dir && target.contains(newDir):
		return syscall.EINVAL
	case replaced == nil:
	case replaced.dir:
		return syscall.EEXIST
	case target.dir:
		return syscall.ENOTDIR
	}
	f.doLocked(&dirOp{oldDir: oldDir, oldName: oldBase, newDir: newDir, newName: newBase, target: target})
	return nil
}

func (n *node) contains(other *node) bool {
	if n == other {
		return true
	}
	for _, child := range n.live {
		if child.dir && child.contains(other) {
			return true
		}
	}
	return false
}
