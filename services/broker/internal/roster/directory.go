package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
)

const (
	root       = "replicas"
	identName  = "ident"
	tempSuffix = ".tmp"
	formatNow  = 1
	identMax   = 4 << 10
)

// ident says what the directory of a replica is.
type ident struct {
	Format    int             `json:"format"`
	Cluster   partition.UUID  `json:"cluster"`
	Topic     partition.UUID  `json:"topic"`
	Partition partition.Index `json:"partition"`
	Replica   partition.UUID  `json:"replica"`
}

func dirOf(replica partition.UUID) string { return root + "/" + replica.String() }

// makeDir makes the directory of a new replica with its ident, durably. Again changes nothing.
func makeDir(fsys vfs.FS, id ident) error {
	dir := dirOf(id.Replica)
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("make replica directory: %w", err)
	}
	data, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode replica ident: %w", err)
	}
	temp := dir + "/" + identName + tempSuffix
	file, err := fsys.Open(temp, vfs.Write|vfs.Create)
	if err != nil {
		return fmt.Errorf("write replica ident: %w", err)
	}
	err = errors.Join(file.Truncate(0), write(file, data), file.Sync(), file.Close())
	if err == nil {
		err = errors.Join(fsys.Rename(temp, dir+"/"+identName), fsys.SyncDir(dir), fsys.SyncDir(root), fsys.SyncDir("."))
	}
	if err != nil {
		return fmt.Errorf("write replica ident: %w", err)
	}
	return nil
}

func write(file vfs.File, data []byte) error {
	_, err := file.WriteAt(data, 0)
	return err //nolint:wrapcheck // the caller wraps.
}

// checkDir tells whether the directory of a replica is there and is its own. Errors: Corrupt where it is missing or cannot be read, WrongCluster
// where it is another's.
func checkDir(fsys vfs.FS, want ident) error {
	name := dirOf(want.Replica) + "/" + identName
	file, err := fsys.Open(name, 0)
	if err != nil {
		kind := fault.DiskPoisoned
		if errors.Is(err, fs.ErrNotExist) {
			kind = fault.Corrupt
		}
		return fault.Errorf(kind, "read replica ident: %w", err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil || size > identMax {
		return fault.Errorf(fault.Corrupt, "read replica ident of %d bytes: %w", size, err)
	}
	data := make([]byte, size)
	if _, err := file.ReadAt(data, 0); err != nil {
		return fault.Errorf(fault.Corrupt, "read replica ident: %w", err)
	}
	var got ident
	if err := json.Unmarshal(data, &got); err != nil {
		return fault.Errorf(fault.Corrupt, "read replica ident: %w", err)
	}
	switch {
	case got.Format > formatNow:
		return fault.Errorf(fault.UnsupportedVersion, "read replica ident: format %d, this build reads %d", got.Format, formatNow)
	case got.Cluster != want.Cluster:
		return fault.Errorf(fault.WrongCluster, "replica %s belongs to cluster %s, not %s", want.Replica, got.Cluster, want.Cluster)
	case got != want:
		return fault.Errorf(fault.Corrupt, "the directory of replica %s says it is replica %s of %s/%d", want.Replica, got.Replica, got.Topic, got.Partition)
	}
	return nil
}

// removeDir deletes a replica's directory, durably.
func removeDir(fsys vfs.FS, replica partition.UUID) error {
	err := fsys.RemoveAll(dirOf(replica))
	if err == nil {
		err = fsys.SyncDir(root)
	}
	if err != nil {
		return fmt.Errorf("remove replica directory: %w", err)
	}
	return nil
}
