//go:build linux || darwin

package osfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seedqueue/sq/libs/vfs"
)

const errIsDir = unix.EISDIR

// control runs do on the descriptor, again when a signal interrupts it.
func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = retry(func() error { return do(int(fd)) }) })
	return errors.Join(err, inner)
}

func retry(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func lockFile(file *os.File) error {
	err := control(file, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return vfs.ErrLocked
	}
	return err
}

func volumeUsage(dir *os.File) (vfs.Usage, error) {
	var st unix.Statfs_t
	if err := control(dir, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return vfs.Usage{}, err
	}
	block := uint64(st.Bsize) // its type differs by system; never negative
	return vfs.Usage{Total: st.Blocks * block, Free: st.Bavail * block}, nil
}

func negative(off, n int64) error {
	if off < 0 || n < 0 {
		return fs.ErrInvalid
	}
	return nil
}
