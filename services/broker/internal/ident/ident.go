package ident

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
)

// Format is the version of the data directory's layout that this build writes, and the newest it reads.
const Format = 1

const (
	fileName = "ident"
	tmpName  = "ident.tmp"
	lockName = "lock"
	// bytesMax bounds the file.
	bytesMax = 4096
)

// Ident is whose a data directory is.
type Ident struct {
	Format  int              `json:"format"`
	Cluster partition.UUID   `json:"cluster"`
	Node    partition.NodeID `json:"node"`
	Disk    partition.UUID   `json:"disk"`
	Created time.Time        `json:"created"`
}

// file is an Ident with its check: CRC32C of the Ident's JSON.
type file struct {
	Ident
	Check string `json:"crc32c"`
}

func (i Ident) check() (string, error) {
	data, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	return fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))), nil
}

// Lock takes the directory for this process until Close.
func Lock(dir vfs.FS) (io.Closer, error) {
	lock, err := dir.Lock(lockName)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fault.Errorf(fault.DataDirInUse, "data directory %s is in use by another process", dir.Name("."))
	case err != nil:
		return nil, fault.Errorf(fault.Unavailable, "lock data directory %s: %w", dir.Name("."), err)
	}
	return lock, nil
}

// Read gives the identity; ok is false for a directory that is still empty. The caller has the lock.
func Read(dir vfs.FS) (id Ident, ok bool, err error) {
	name := dir.Name(fileName)
	data, err := readFile(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Ident{}, false, checkEmpty(dir)
	}
	if err != nil {
		return Ident{}, false, fault.Errorf(fault.Unavailable, "read %s: %w", name, err)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return Ident{}, false, fault.Errorf(fault.Corrupt, "read %s: %w", name, err)
	}
	if f.Format < 1 || f.Format > Format {
		return Ident{}, false, fault.Errorf(fault.UnsupportedVersion, "read %s: data directory has format %d, this build reads 1 to %d", name, f.Format, Format)
	}
	want, err := f.check()
	if err != nil {
		return Ident{}, false, err
	}
	if f.Check != want {
		return Ident{}, false, fault.Errorf(fault.Corrupt, "read %s: checksum is %q, should be %q", name, f.Check, want)
	}
	return f.Ident, true, nil
}

// Open gives the identity of a directory that must be the cluster's and the broker's, and makes it for an empty one. The caller has the lock.
func Open(dir vfs.FS, cluster partition.UUID, node partition.NodeID, newUUID func() partition.UUID, now time.Time) (Ident, error) {
	id, ok, err := Read(dir)
	if err != nil {
		return Ident{}, err
	}
	if ok {
		return id, id.belongs(dir, cluster, node)
	}
	id = Ident{Format: Format, Cluster: cluster, Node: node, Disk: newUUID(), Created: now.UTC().Truncate(time.Second)}
	if err := write(dir, id); err != nil {
		return Ident{}, fault.Errorf(fault.Unavailable, "write %s: %w", dir.Name(fileName), err)
	}
	return id, nil
}

// belongs tells whether the directory is this broker's. A zero cluster or node is any.
func (i Ident) belongs(dir vfs.FS, cluster partition.UUID, node partition.NodeID) error {
	switch {
	case !cluster.IsZero() && i.Cluster != cluster:
		return fault.Errorf(fault.WrongCluster, "data directory %s belongs to cluster %s, this is cluster %s", dir.Name("."), i.Cluster, cluster)
	case node != 0 && i.Node != node:
		return fault.Errorf(fault.Conflict, "data directory %s belongs to broker %d, this is broker %d", dir.Name("."), i.Node, node)
	}
	return nil
}

// Check tells whether a directory that has an identity is this broker's, before the cluster is asked; a zero cluster is any.
func Check(dir vfs.FS, cluster partition.UUID, node partition.NodeID) error {
	id, ok, err := Read(dir)
	if err != nil || !ok {
		return err
	}
	return id.belongs(dir, cluster, node)
}

func readFile(dir vfs.FS) ([]byte, error) {
	f, err := dir.Open(fileName, 0)
	if err != nil {
		return nil, err //nolint:wrapcheck // Read says what was attempted.
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err //nolint:wrapcheck // Read says what was attempted.
	}
	if size > bytesMax {
		return nil, fmt.Errorf("%d bytes, at most %d are expected", size, bytesMax)
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err //nolint:wrapcheck // Read says what was attempted.
	}
	return data, nil
}

// checkEmpty refuses a directory with files of somebody (doc.go 3).
func checkEmpty(dir vfs.FS) error {
	names, err := dir.List(".")
	if err != nil {
		return fault.Errorf(fault.Unavailable, "list data directory %s: %w", dir.Name("."), err)
	}
	for _, name := range names {
		if name != lockName && name != tmpName && name != "lost+found" {
			return fault.Errorf(fault.Conflict, "data directory %s has files (%s) but no identity: give an empty directory, or restore its file %q",
				dir.Name("."), name, fileName)
		}
	}
	return nil
}

func write(dir vfs.FS, id Ident) error {
	check, err := id.check()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(file{Ident: id, Check: check}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	f, err := dir.Open(tmpName, vfs.Write|vfs.Create)
	if err != nil {
		return err //nolint:wrapcheck // Open says what was attempted.
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	if err = errors.Join(err, f.Truncate(int64(len(data)+1)), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := dir.Rename(tmpName, fileName); err != nil {
		return err //nolint:wrapcheck // Open says what was attempted.
	}
	return dir.SyncDir(".") //nolint:wrapcheck // Open says what was attempted.
}
