package wal

import (
	"errors"

	"github.com/seedqueue/sq/libs/vfs"
)

var errBadSector = errors.New("bad sector")

// badSector is a file system with one sector of every file that cannot be read.
type badSector struct {
	vfs.FS
	at int64
}

func (b *badSector) Open(name string, flags vfs.Flag) (vfs.File, error) {
	f, err := b.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &badFile{f, b.at}, nil
}

type badFile struct {
	vfs.File
	at int64
}

func (f *badFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.at+512 && off+int64(len(p)) > f.at {
		if off >= f.at {
			return 0, errBadSector
		}
		n, err := f.File.ReadAt(p[:f.at-off], off)
		return n, errors.Join(err, errBadSector)
	}
	return f.File.ReadAt(p, off)
}
