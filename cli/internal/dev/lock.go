package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seedqueue/sq/libs/fault"
)

// lock keeps a directory for this process. The lock ends with the process, however it ends; the file stays.
type lock struct{ file *os.File }

func takeLock(dir string) (*lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fault.Errorf(fault.DataDirInUse, "it is in use by another 'sq dev'%s: stop that one, or name another --data-dir", holder(file))
	}
	if err == nil {
		err = errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid())))
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap("lock "+dir, err), file.Close())
	}
	return &lock{file}, nil
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text+"\n"), 0)
	return err
}

// holder names the process that has the lock, if it can be read.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

func (l *lock) release() error { return l.file.Close() }
