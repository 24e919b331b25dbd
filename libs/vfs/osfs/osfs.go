package osfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seedqueue/sq/libs/vfs"
)

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// FS is a directory of the machine. Close it when no file of it is in use.
type FS struct {
	dir  string
	root *os.Root
}

// New opens dir, making it if missing.
func New(dir string) (*FS, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		if err := syncPath(filepath.Dir(dir)); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	return &FS{dir: dir, root: root}, nil
}

func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close lets go of the directory. Open files stay usable.
func (f *FS) Close() error { return f.root.Close() }

// Name gives the path below the directory that New was given.
func (f *FS) Name(name string) string { return filepath.Join(f.dir, name) }

// explain makes the os package's errors say the operation and the whole path.
func (f *FS) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	} else if inner, ok := errors.AsType[*os.LinkError](err); ok {
		err = inner.Err
	}
	return &fs.PathError{Op: op, Path: f.Name(name), Err: err}
}

// Open opens a file.
func (f *FS) Open(name string, flags vfs.Flag) (vfs.File, error) {
	mode := os.O_RDONLY
	if flags&vfs.Write != 0 {
		mode = os.O_RDWR
	}
	if flags&vfs.Create != 0 {
		mode |= os.O_CREATE
	}
	if flags&vfs.Exclusive != 0 {
		mode |= os.O_EXCL
	}
	direct := flags&vfs.Direct != 0
	file, past, err := openFile(f.root, name, mode, direct)
	if err != nil {
		return nil, f.explain("open", name, err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errIsDir
	}
	if err != nil {
		return nil, errors.Join(f.explain("open", name, err), file.Close())
	}
	return &openedFile{fs: f, name: name, file: file, direct: direct, pastCache: past}, nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error { return f.explain("remove", name, f.root.Remove(name)) }

// RemoveAll removes a tree.
func (f *FS) RemoveAll(name string) error { return f.explain("remove", name, f.root.RemoveAll(name)) }

// Rename replaces newName with oldName.
func (f *FS) Rename(oldName, newName string) error {
	return f.explain("rename", oldName, f.root.Rename(oldName, newName))
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(name string) error {
	return f.explain("make directory", name, f.root.MkdirAll(name, dirMode))
}

// SyncDir makes the entries of a directory durable.
func (f *FS) SyncDir(name string) error {
	d, err := f.root.Open(name)
	if err != nil {
		return f.explain("sync directory", name, err)
	}
	return f.explain("sync directory", name, errors.Join(d.Sync(), d.Close()))
}

// SyncAll makes everything written below the directory durable.
func (f *FS) SyncAll() error { return f.explain("sync", ".", syncAll(f.root)) }

// List gives the names in a directory, sorted.
func (f *FS) List(name string) ([]string, error) {
	d, err := f.root.Open(name)
	if err != nil {
		return nil, f.explain("list", name, err)
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, f.explain("list", name, err)
	}
	slices.Sort(names)
	return names, nil
}

// Stat tells size and kind.
func (f *FS) Stat(name string) (vfs.Info, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return vfs.Info{}, f.explain("stat", name, err)
	}
	out := vfs.Info{Dir: info.IsDir(), ModTime: info.ModTime()}
	if !out.Dir {
		out.Size = info.Size()
	}
	return out, nil
}

// Lock takes an flock, which ends with the process however it dies.
func (f *FS) Lock(name string) (io.Closer, error) {
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, f.explain("lock", name, err)
	}
	if err := lockFile(file); err != nil {
		return nil, errors.Join(f.explain("lock", name, err), file.Close())
	}
	return file, nil
}

// Usage tells the size and free bytes of the volume; free is what an unprivileged process may still take.
func (f *FS) Usage() (vfs.Usage, error) {
	d, err := f.root.Open(".")
	if err != nil {
		return vfs.Usage{}, f.explain("stat volume", ".", err)
	}
	usage, err := volumeUsage(d)
	return usage, f.explain("stat volume", ".", errors.Join(err, d.Close()))
}
