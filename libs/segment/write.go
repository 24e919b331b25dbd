package segment

import (
	"errors"
	"io/fs"
	"path"

	"github.com/seedqueue/sq/libs/vfs"
)

// removeFile takes the index and the log away, durably, the proof before what it proves. With recycle, the log may go into the pool.
func removeFile(file *File, recycle bool) error {
	files, fsys, dir := file.files, file.files.fs, path.Dir(file.name)
	if err := removeIndex(fsys, file.name); err != nil {
		return err
	}
	unused := file.retire()
	moved := false
	var err error
	if recycle && unused && files.pool != nil {
		moved, err = files.pool.Give(file.name)
	}
	if !moved && err == nil {
		if err = fsys.Remove(file.name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return poisoned("remove segment", err)
}

// removeIndex takes the index away, durably; nothing is done if there is none.
func removeIndex(fsys vfs.FS, logName string) error {
	err := fsys.Remove(indexName(logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(logName))
	}
	return poisoned("remove index", err)
}

func indexName(logName string) string {
	return logName[:len(logName)-len(logSuffix)] + indexSuffix
}

// WriteIndex replaces the index file of a segment whose batches are durable. Its own bytes are not synced: a crash leaves it as it was, whole,
// or with a wrong checksum.
func WriteIndex(fsys vfs.FS, dir string, x *Index) error {
	return writeFile(fsys, dir+"/"+Name(x.Base, IndexPart), x.AppendTo(nil), false)
}

// writeFile replaces a file; with sync its bytes are durable before it has its name, and the name before it returns.
func writeFile(fsys vfs.FS, name string, p []byte, sync bool) error {
	temp := name + TempSuffix
	file, err := fsys.Open(temp, vfs.Write|vfs.Create)
	if err != nil {
		return err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt(p, 0)
	}
	if err == nil && sync {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	if sync {
		return fsys.SyncDir(path.Dir(name))
	}
	return nil
}
