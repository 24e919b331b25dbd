package vfs

import (
	"errors"
	"io"
	"syscall"
)

// IsFull tells whether an error says that the volume, or a quota on it, has no room: what was attempted may succeed once there is room, and
// nothing that was written before is in doubt.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, io.ErrShortWrite)
}

// IsUnreadable tells whether an error says that the device could not give what was asked for.
func IsUnreadable(err error) bool { return errors.Is(err, syscall.EIO) }
