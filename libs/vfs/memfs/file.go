package memfs

import (
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/seedqueue/sq/libs/vfs"
)

// copyBytes is the buffer of SendTo.
const copyBytes = 64 << 10

// File is an open file.
type File struct {
	fs            *FS
	node          *node
	name          string
	write, direct bool
	closed        atomic.Bool
}

var _ vfs.File = (*File)(nil)

// usable checks what every access needs, and alignment where the file is direct.
func (h *File) usable(op string, n int, off int64) error {
	if h.closed.Load() {
		return h.fs.explain(op, h.name, fs.ErrClosed)
	}
	if h.direct && (n%pageBytes != 0 || off%pageBytes != 0) {
		err := fmt.Errorf("direct access to [%d, %d), not multiples of %d: %w", off, off+int64(n), pageBytes, fs.ErrInvalid)
		return h.fs.explain(op, h.name, err)
	}
	return nil
}

func (h *File) writable(op string, n int, off int64) error {
	if err := h.usable(op, n, off); err != nil {
		return err
	}
	if !h.write {
		return h.fs.explain(op, h.name, syscall.EBADF)
	}
	return nil
}

// ReadAt reads as io.ReaderAt says.
func (h *File) ReadAt(p []byte, off int64) (int, error) {
	if err := h.usable("read", len(p), off); err != nil {
		return 0, err
	}
	n, err := h.node.content.readAt(p, off)
	if err == io.EOF { //nolint:errorlint // io.ReaderAt promises the bare io.EOF
		return n, err
	}
	return n, h.fs.explain("read", h.name, err)
}

// WriteAt writes as io.WriterAt says.
func (h *File) WriteAt(p []byte, off int64) (int, error) {
	if err := h.writable("write", len(p), off); err != nil {
		return 0, err
	}
	n, err := h.node.content.writeAt(p, off)
	h.touch()
	return n, h.fs.explain("write", h.name, err)
}

// Writev writes the buffers one behind the other.
func (h *File) Writev(buffers [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range buffers {
		n, err := h.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (h *File) touch() {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.node.modTime = h.fs.clock.Now()
}

// Sync makes bytes and size durable.
func (h *File) Sync() error {
	if err := h.usable("sync", 0, 0); err != nil {
		return err
	}
	h.node.content.sync()
	return nil
}

// Datasync makes bytes and size durable.
func (h *File) Datasync() error { return h.Sync() }

// FailSync is what a failed sync leaves: nothing written since the last good one is durable, and no later sync makes it so but for pages
// that are written again.
func (h *File) FailSync() { h.node.content.failSync() }

// Truncate sets the size.
func (h *File) Truncate(size int64) error {
	if err := h.writable("truncate", 0, 0); err != nil {
		return err
	}
	err := h.node.content.truncate(size)
	h.touch()
	return h.fs.explain("truncate", h.name, err)
}

// Allocate sets room aside, for all that the file lacks below the end.
func (h *File) Allocate(off, n int64) error {
	if err := h.writable("allocate", 0, 0); err != nil {
		return err
	}
	var err error
	if off < 0 || n < 0 {
		err = fs.ErrInvalid
	} else if n > 0 {
		err = h.node.content.allocate(off + n)
	}
	return h.fs.explain("allocate", h.name, err)
}

// Size gives the size in bytes.
func (h *File) Size() (int64, error) {
	if err := h.usable("stat", 0, 0); err != nil {
		return 0, err
	}
	return h.node.content.bytes(), nil
}

// SendTo copies [off, off+n) to w; io.ErrUnexpectedEOF where the file ends before.
func (h *File) SendTo(w io.Writer, off, n int64) (int64, error) {
	if err := h.usable("send", 0, 0); err != nil {
		return 0, err
	}
	if off < 0 || n < 0 {
		return 0, h.fs.explain("send", h.name, fs.ErrInvalid)
	}
	buffer := make([]byte, min(n, copyBytes))
	var sent int64
	for sent < n {
		got, err := h.node.content.readAt(buffer[:min(int64(len(buffer)), n-sent)], off+sent)
		if got == 0 {
			return sent, io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF { //nolint:errorlint // readAt gives it bare
			return sent, err
		}
		wrote, err := w.Write(buffer[:got])
		sent += int64(wrote)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// Close lets go of the file.
func (h *File) Close() error {
	if h.closed.Swap(true) {
		return h.fs.explain("close", h.name, fs.ErrClosed)
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.node.handles--
	h.node.releaseIfGone()
	return nil
}
