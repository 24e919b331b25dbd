package vfs

import (
	"io"
	"io/fs"
	"time"
)

// Flag says how a file is opened.
type Flag uint8

// Flags of Open.
const (
	// Write opens for reading and writing; without it the file is read-only.
	Write Flag = 1 << iota
	// Create makes the file if it is missing.
	Create
	// Exclusive fails with fs.ErrExist if the file is there. Only with Create.
	Exclusive
	// Direct reads past the page cache where the file system can; buffers, offsets and lengths are then multiples of 4096.
	Direct
)

// FS is a directory tree. Errors wrap fs.ErrNotExist, fs.ErrExist and so on, and the syscall's errno where there is one.
type FS interface {
	// Open opens a file.
	Open(name string, flags Flag) (File, error)
	// Remove removes a file or an empty directory. Durable after SyncDir of its parent.
	Remove(name string) error
	// RemoveAll removes a tree; no error if it is not there.
	RemoveAll(name string) error
	// Rename replaces newName, a file or nothing, with oldName atomically. Durable after SyncDir of both parents.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and its parents. Durable after SyncDir of each parent.
	MkdirAll(name string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// SyncAll makes everything written so far durable (syncfs).
	SyncAll() error
	// List gives the names in a directory, sorted.
	List(name string) ([]string, error)
	// Stat tells size and kind.
	Stat(name string) (Info, error)
	// Lock takes an exclusive lock on a file, made if missing, that ends with the process or with Close; ErrLocked if another has it.
	Lock(name string) (io.Closer, error)
	// Usage tells the size and free bytes of the volume.
	Usage() (Usage, error)
	// Name gives the path of a file as a person would type it, for messages.
	Name(name string) string
}

// File is an open file. ReadAt and WriteAt follow io.ReaderAt and io.WriterAt; a short write is an error.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Writev writes the buffers one behind the other at off, in one system call where possible.
	Writev(buffers [][]byte, off int64) (int, error)
	// Sync makes bytes and metadata durable (fsync; F_FULLFSYNC on macOS).
	Sync() error
	// Datasync makes bytes and size durable (fdatasync; F_FULLFSYNC on macOS).
	Datasync() error
	// Truncate sets the size.
	Truncate(size int64) error
	// Allocate reserves disk for [off, off+n) without changing the size; no error where the file system cannot.
	Allocate(off, n int64) error
	// Size gives the size in bytes.
	Size() (int64, error)
	// SendTo copies [off, off+n) to w, by sendfile where w is a TCP connection and the file can.
	SendTo(w io.Writer, off, n int64) (int64, error)
}

// Info describes a file.
type Info struct {
	Size    int64
	Dir     bool
	ModTime time.Time
}

// Usage is a volume's room in bytes.
type Usage struct {
	Total uint64
	Free  uint64
}

// ErrLocked is what Lock returns when another process, or another FS of this one, holds the lock.
var ErrLocked error = lockedError{}

type lockedError struct{}

func (lockedError) Error() string { return "locked by another process" }

// Is makes it an fs.ErrExist too.
func (lockedError) Is(target error) bool { return target == fs.ErrExist }
