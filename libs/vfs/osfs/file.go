package osfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/seedqueue/sq/libs/vfs"
)

const (
	// directAlign is the multiple that buffers, offsets and lengths of a direct file keep.
	directAlign = 4096
	// copyBytes is the buffer of a copy that sendfile cannot do.
	copyBytes = 64 << 10
)

type openedFile struct {
	fs   *FS
	name string
	file *os.File
	// direct was asked for; pastCache tells whether the kernel does it (O_DIRECT, F_NOCACHE).
	direct, pastCache bool
	closed            atomic.Bool
}

var _ vfs.File = (*openedFile)(nil)

func (o *openedFile) explain(op string, err error) error {
	if err != nil && o.closed.Load() {
		err = fs.ErrClosed // the os package has another, unexported one for raw descriptors
	}
	return o.fs.explain(op, o.name, err)
}

func (o *openedFile) ReadAt(p []byte, off int64) (int, error) {
	if !o.direct {
		n, err := o.file.ReadAt(p, off)
		return n, o.readError(err)
	}
	if err := aligned(len(p), off); err != nil {
		return 0, o.explain("read", err)
	}
	if !o.pastCache {
		dropCache(o.file, off, int64(len(p)))
	}
	buffer := p
	if !alignedMemory(p) {
		buffer = alignedBytes(len(p))
	}
	n, err := o.file.ReadAt(buffer, off)
	if !alignedMemory(p) {
		copy(p, buffer[:n])
	}
	return n, o.readError(err)
}

func (o *openedFile) readError(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.ReaderAt promises the bare io.EOF
		return err
	}
	return o.explain("read", err)
}

func (o *openedFile) WriteAt(p []byte, off int64) (int, error) {
	if o.direct {
		if err := aligned(len(p), off); err != nil {
			return 0, o.explain("write", err)
		}
		if !alignedMemory(p) {
			buffer := alignedBytes(len(p))
			copy(buffer, p)
			p = buffer
		}
	}
	n, err := o.file.WriteAt(p, off)
	return n, o.explain("write", err)
}

func (o *openedFile) Writev(buffers [][]byte, off int64) (int, error) {
	if !o.direct {
		n, err := writev(o.file, buffers, off)
		return n, o.explain("write", err)
	}
	total := 0
	for _, b := range buffers {
		n, err := o.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (o *openedFile) Sync() error     { return o.explain("sync", o.file.Sync()) }
func (o *openedFile) Datasync() error { return o.explain("sync", datasync(o.file)) }
func (o *openedFile) Close() error {
	o.closed.Store(true)
	return o.fs.explain("close", o.name, o.file.Close())
}

func (o *openedFile) Truncate(size int64) error {
	return o.explain("truncate", o.file.Truncate(size))
}

func (o *openedFile) Allocate(off, n int64) error {
	return o.explain("allocate", allocate(o.file, off, n))
}

func (o *openedFile) Size() (int64, error) {
	info, err := o.file.Stat()
	if err != nil {
		return 0, o.explain("stat", err)
	}
	return info.Size(), nil
}

// SendTo fails with io.ErrUnexpectedEOF where the file ends before off+n.
func (o *openedFile) SendTo(w io.Writer, off, n int64) (int64, error) {
	if off < 0 || n < 0 {
		return 0, o.explain("send", fs.ErrInvalid)
	}
	if o.closed.Load() {
		return 0, o.explain("send", fs.ErrClosed)
	}
	if !o.direct {
		if sent, handled, err := sendFile(w, o.file, off, n); handled {
			return sent, err
		}
	}
	buffer := alignedBytes(int(min(roundUp(n), copyBytes)))
	var sent int64
	for sent < n {
		size := len(buffer)
		if !o.direct {
			size = int(min(int64(size), n-sent))
		}
		got, err := o.ReadAt(buffer[:size], off+sent)
		if err != nil && err != io.EOF { //nolint:errorlint // ReadAt gives the bare io.EOF
			return sent, err
		}
		atEnd := err != nil
		got = int(min(int64(got), n-sent))
		wrote, err := w.Write(buffer[:got])
		sent += int64(wrote)
		if err == nil && atEnd && sent < n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func aligned(n int, off int64) error {
	if n%directAlign != 0 || off%directAlign != 0 {
		return fmt.Errorf("direct access to [%d, %d), not multiples of %d: %w", off, off+int64(n), directAlign, fs.ErrInvalid)
	}
	return nil
}

func roundUp(n int64) int64 { return (n + directAlign - 1) / directAlign * directAlign }

func alignedMemory(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%directAlign == 0 // only the address is looked at
}

// alignedBytes makes n bytes that start at a multiple of directAlign.
func alignedBytes(n int) []byte {
	raw := make([]byte, n+directAlign)
	skip := 0
	if rest := uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % directAlign; rest != 0 { // only the address is looked at
		skip = int(directAlign - rest)
	}
	return raw[skip : skip+n : skip+n]
}
