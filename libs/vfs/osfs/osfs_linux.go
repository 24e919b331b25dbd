package osfs

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// maxVectors is the kernel's IOV_MAX.
	maxVectors = 1024
	// sendBytes bounds one sendfile, so that a deadline is looked at in between.
	sendBytes = 4 << 20
)

// openFile opens with O_DIRECT where direct is set and the file system has it; past tells whether it has.
func openFile(root *os.Root, name string, mode int, direct bool) (file *os.File, past bool, err error) {
	if direct {
		if file, err = root.OpenFile(name, mode|unix.O_DIRECT, fileMode); err == nil {
			return file, true, nil
		}
		if !errors.Is(err, unix.EINVAL) {
			return nil, false, err
		}
		mode &^= os.O_EXCL // the refused open may have made the file
	}
	file, err = root.OpenFile(name, mode, fileMode)
	return file, false, err
}

// dropCache is for a file system without O_DIRECT: clean pages of the range leave the cache.
func dropCache(file *os.File, off, n int64) {
	_ = control(file, func(fd int) error { return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) }) // advice only
}

func datasync(file *os.File) error { return control(file, unix.Fdatasync) }

func syncAll(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(control(d, unix.Syncfs), d.Close())
}

func allocate(file *os.File, off, n int64) error {
	if err := negative(off, n); err != nil || n == 0 {
		return err
	}
	err := control(file, func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

func writev(file *os.File, buffers [][]byte, off int64) (int, error) {
	rest := make([][]byte, 0, len(buffers))
	for _, b := range buffers {
		if len(b) > 0 {
			rest = append(rest, b)
		}
	}
	total := 0
	for len(rest) > 0 {
		var n int
		err := control(file, func(fd int) (err error) {
			n, err = unix.Pwritev(fd, rest[:min(len(rest), maxVectors)], off+int64(total))
			return err
		})
		if err != nil {
			return total, err
		}
		if n == 0 {
			return total, io.ErrShortWrite
		}
		total += n
		rest = unwritten(rest, n)
	}
	return total, nil
}

// unwritten gives what is left of the buffers after n bytes of them. It cuts the first in place.
func unwritten(buffers [][]byte, n int) [][]byte {
	for len(buffers) > 0 && n >= len(buffers[0]) {
		n -= len(buffers[0])
		buffers = buffers[1:]
	}
	if n > 0 {
		buffers[0] = buffers[0][n:]
	}
	return buffers
}

// sendFile has the kernel copy to a TCP connection. handled is false, with nothing sent, where it cannot. The file's own position is
// not used: many readers share one descriptor.
func sendFile(w io.Writer, file *os.File, off, n int64) (sent int64, handled bool, err error) {
	conn, ok := w.(*net.TCPConn)
	if !ok {
		return 0, false, nil
	}
	out, err := conn.SyscallConn()
	if err != nil {
		return 0, true, err
	}
	in, err := file.SyscallConn()
	if err != nil {
		return 0, true, err
	}
	for sent < n && err == nil {
		var step int
		var stepErr error
		err = out.Write(func(outFD uintptr) bool {
			controlErr := in.Control(func(inFD uintptr) {
				stepErr = retry(func() (err error) {
					at := off + sent
					step, err = unix.Sendfile(int(outFD), int(inFD), &at, int(min(n-sent, sendBytes)))
					return err
				})
			})
			stepErr = errors.Join(controlErr, stepErr)
			return !errors.Is(stepErr, unix.EAGAIN) // false: wait until the connection takes more
		})
		switch {
		case err != nil: // the connection's deadline or end
		case sent == 0 && (errors.Is(stepErr, unix.EINVAL) || errors.Is(stepErr, unix.ENOSYS)):
			return 0, false, nil
		case stepErr != nil:
			err = stepErr
		case step == 0:
			err = io.ErrUnexpectedEOF
		default:
			sent += int64(step)
		}
	}
	return sent, true, err
}
