package osfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFile asks for F_NOCACHE where direct is set.
func openFile(root *os.Root, name string, mode int, direct bool) (file *os.File, past bool, err error) {
	file, err = root.OpenFile(name, mode, fileMode)
	if err != nil || !direct {
		return file, false, err
	}
	err = control(file, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
		return err
	})
	return file, err == nil, nil
}

func dropCache(*os.File, int64, int64) {}

// datasync is a whole F_FULLFSYNC, which os.File.Sync does here: nothing less reaches the platter.
func datasync(file *os.File) error { return file.Sync() }

// syncAll syncs file by file: this system's sync returns before the bytes are down.
func syncAll(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || (!entry.IsDir() && !entry.Type().IsRegular()) {
			return err
		}
		f, err := root.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// allocate reserves from the end of what the file has; F_PREALLOCATE knows no other place.
func allocate(file *os.File, off, n int64) error {
	if err := negative(off, n); err != nil || n == 0 {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	want := off + n - info.Size()
	if want <= 0 {
		return nil
	}
	store := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: want}
	err = control(file, func(fd int) error { return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &store) })
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

func writev(file *os.File, buffers [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range buffers {
		n, err := file.WriteAt(b, off+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// sendFile leaves it to the copy.
func sendFile(io.Writer, *os.File, int64, int64) (sent int64, handled bool, err error) {
	return 0, false, nil
}
