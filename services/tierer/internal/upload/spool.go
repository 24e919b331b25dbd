package upload

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/vfs"
)

const (
	spoolPrefix = "upload-"
	spoolSuffix = ".tmp"
)

// Spool is where segments lie between leader and bucket. Nothing in it outlives the process.
type Spool struct {
	fs    vfs.FS
	count atomic.Uint64
}

// NewSpool takes a directory over and clears it of what an earlier life left.
func NewSpool(fs vfs.FS) (*Spool, error) {
	names, err := fs.List(".")
	if err != nil {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, spoolPrefix) && strings.HasSuffix(name, spoolSuffix) {
			if err := fs.Remove(name); err != nil {
				return nil, fmt.Errorf("clear spool: %w", err)
			}
		}
	}
	return &Spool{fs: fs}, nil
}

// file is a spooled object under construction. It is removed by drop.
type file struct {
	vfs.File

	fs   vfs.FS
	name string
	size int64
}

func (s *Spool) create() (*file, error) {
	name := fmt.Sprintf("%s%d%s", spoolPrefix, s.count.Add(1), spoolSuffix)
	f, err := s.fs.Open(name, vfs.Write|vfs.Create|vfs.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("create spool file: %w", err)
	}
	return &file{File: f, fs: s.fs, name: name}, nil
}

// Write appends.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.size)
	f.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write spool file: %w", err)
	}
	return n, nil
}

func (f *file) drop() error { return errors.Join(f.Close(), f.fs.Remove(f.name)) }
