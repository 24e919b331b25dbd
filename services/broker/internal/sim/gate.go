package sim

import (
	"io"
	"syscall"

	"github.com/seedqueue/sq/libs/vfs"
)

// gate is a process's way to its machine's disk. When the process has died it leads nowhere: what the process does in the rest of the call that
// it died in changes nothing any more.
type gate struct {
	p  *process
	fs vfs.FS
}

// shut tells whether the process is dead; a change of the disk may be what it dies in.
func (p *process) shut(change bool) error {
	if change && !p.dead && p.fuse > 0 {
		if p.fuse--; p.fuse == 0 {
			p.n.w.stats.add("died inside a call to the disk")
			p.n.end(p.fusePower)
			p.n.restartSoon()
		}
	}
	if p.dead {
		return syscall.EIO
	}
	return nil
}

func (g gate) Open(name string, flags vfs.Flag) (vfs.File, error) {
	if err := g.p.shut(flags&vfs.Create != 0); err != nil {
		return nil, err
	}
	f, err := g.fs.Open(name, flags)
	if err != nil {
		return nil, err //nolint:wrapcheck // as the file system says it.
	}
	return gatedFile{g.p, f}, nil
}

func (g gate) change(do func() error) error {
	if err := g.p.shut(true); err != nil {
		return err
	}
	return do()
}

func (g gate) Remove(name string) error { return g.change(func() error { return g.fs.Remove(name) }) }

func (g gate) RemoveAll(name string) error {
	return g.change(func() error { return g.fs.RemoveAll(name) })
}

func (g gate) MkdirAll(name string) error {
	return g.change(func() error { return g.fs.MkdirAll(name) })
}

func (g gate) SyncDir(name string) error { return g.change(func() error { return g.fs.SyncDir(name) }) }
func (g gate) SyncAll() error            { return g.change(g.fs.SyncAll) }
func (g gate) Rename(from, to string) error {
	return g.change(func() error { return g.fs.Rename(from, to) })
}

func (g gate) List(name string) ([]string, error) {
	if err := g.p.shut(false); err != nil {
		return nil, err
	}
	return g.fs.List(name) //nolint:wrapcheck // as the file system says it.
}

func (g gate) Stat(name string) (vfs.Info, error) {
	if err := g.p.shut(false); err != nil {
		return vfs.Info{}, err
	}
	return g.fs.Stat(name) //nolint:wrapcheck // as the file system says it.
}

func (g gate) Lock(name string) (io.Closer, error) { return g.fs.Lock(name) } //nolint:wrapcheck // as the file system says it.
func (g gate) Usage() (vfs.Usage, error)           { return g.fs.Usage() }    //nolint:wrapcheck // as the file system says it.
func (g gate) Name(name string) string             { return g.fs.Name(name) }

type gatedFile struct {
	p *process
	vfs.File
}

func (f gatedFile) change(do func() error) error { return gate{p: f.p}.change(do) }

func (f gatedFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.p.shut(false); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off) //nolint:wrapcheck // as the file system says it.
}

func (f gatedFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.change(func() error { n, err = f.File.WriteAt(b, off); return err })
	return n, err
}

func (f gatedFile) Writev(buffers [][]byte, off int64) (n int, err error) {
	err = f.change(func() error { n, err = f.File.Writev(buffers, off); return err })
	return n, err
}

func (f gatedFile) Sync() error     { return f.change(f.File.Sync) }
func (f gatedFile) Datasync() error { return f.change(f.File.Datasync) }
func (f gatedFile) Truncate(size int64) error {
	return f.change(func() error { return f.File.Truncate(size) })
}

func (f gatedFile) Allocate(off, n int64) error {
	return f.change(func() error { return f.File.Allocate(off, n) })
}

func (f gatedFile) SendTo(w io.Writer, off, n int64) (int64, error) {
	if err := f.p.shut(false); err != nil {
		return 0, err
	}
	return f.File.SendTo(w, off, n) //nolint:wrapcheck // as the file system says it.
}
