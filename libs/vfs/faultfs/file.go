package faultfs

import (
	"io"

	"github.com/seedqueue/sq/libs/vfs"
)

// file passes Close and Size on: nothing is learnt from their failing.
type file struct {
	vfs.File
	fs   *FS
	name string
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	if r := h.fs.enter(Call{Op: Read, Path: h.name, Off: off, Len: len(p)}); r != nil {
		n := 0
		if before := r.From - off; before > 0 {
			n, _ = h.File.ReadAt(p[:before], off) // the rule's error comes first
		}
		return n, h.fs.fail("read", h.name, r)
	}
	return h.File.ReadAt(p, off)
}

func (h *file) SendTo(w io.Writer, off, n int64) (int64, error) {
	if r := h.fs.enter(Call{Op: Read, Path: h.name, Off: off, Len: int(n)}); r != nil {
		n := int64(0)
		if before := r.From - off; before > 0 {
			n, _ = h.File.SendTo(w, off, before) // the rule's error comes first
		}
		return n, h.fs.fail("send", h.name, r)
	}
	return h.File.SendTo(w, off, n)
}

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	return h.write([][]byte{p}, off, func() (int, error) { return h.File.WriteAt(p, off) })
}

func (h *file) Writev(buffers [][]byte, off int64) (int, error) {
	return h.write(buffers, off, func() (int, error) { return h.File.Writev(buffers, off) })
}

func (h *file) write(buffers [][]byte, off int64, do func() (int, error)) (int, error) {
	total := 0
	for _, b := range buffers {
		total += len(b)
	}
	r := h.fs.enter(Call{Op: Write, Path: h.name, Off: off, Len: total})
	if r == nil {
		return do()
	}
	wrote := 0
	for _, b := range buffers {
		b = b[:min(len(b), max(0, r.Short-wrote))]
		if len(b) == 0 {
			continue
		}
		n, err := h.File.WriteAt(b, off+int64(wrote))
		wrote += n
		if err != nil {
			return wrote, err
		}
	}
	return wrote, h.fs.fail("write", h.name, r)
}

func (h *file) Sync() error     { return h.sync(h.File.Sync) }
func (h *file) Datasync() error { return h.sync(h.File.Datasync) }

func (h *file) sync(do func() error) error {
	if r := h.fs.enter(Call{Op: Sync, Path: h.name}); r != nil {
		if lossy, ok := h.File.(interface{ FailSync() }); ok {
			lossy.FailSync()
		}
		return h.fs.fail("sync", h.name, r)
	}
	return do()
}

func (h *file) Truncate(size int64) error {
	if r := h.fs.enter(Call{Op: Truncate, Path: h.name, Off: size}); r != nil {
		return h.fs.fail("truncate", h.name, r)
	}
	return h.File.Truncate(size)
}

func (h *file) Allocate(off, n int64) error {
	if r := h.fs.enter(Call{Op: Allocate, Path: h.name, Off: off, Len: int(n)}); r != nil {
		return h.fs.fail("allocate", h.name, r)
	}
	return h.File.Allocate(off, n)
}
