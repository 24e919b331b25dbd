package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// The names in a data directory; docs/formats/snapshot.md and journal.md have the layout.
const (
	identName   = "ident"
	journalName = "journal"
	replicaRoot = "replicas"
	logName     = "log"
)

// Kinds of what can be looked at.
const (
	kindBroker  = "broker"
	kindReplica = "replica"
	kindLog     = "log"
	kindSegment = "segment"
)

// identFormat is the version of a replica's ident that this build reads.
const identFormat = 1

// replicaIdent is the ident of a replica's directory.
type replicaIdent struct {
	Format    int             `json:"format"`
	Cluster   partition.UUID  `json:"cluster"`
	Topic     partition.UUID  `json:"topic"`
	Partition partition.Index `json:"partition"`
	Replica   partition.UUID  `json:"replica"`
}

func (i replicaIdent) id() partition.ID { return partition.ID{Topic: i.Topic, Index: i.Partition} }

func (i replicaIdent) tag() uint64 {
	hi, lo := i.Topic.Halves()
	return batch.PartitionTag(hi, lo, uint32(i.Partition))
}

// readReplicaIdent reads an ident; a directory that is no replica's is an error.
func readReplicaIdent(fsys vfs.FS, dir string) (replicaIdent, error) {
	var id replicaIdent
	data, err := readSmall(fsys, dir+"/"+identName)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("decode replica ident: %w", err)
	}
	if id.Format != identFormat || id.Replica.IsZero() || id.Topic.IsZero() {
		return id, fmt.Errorf("decode replica ident: format %d, replica %s of topic %s", id.Format, id.Replica, id.Topic)
	}
	return id, nil
}

func readSmall(fsys vfs.FS, name string) ([]byte, error) {
	file, err := fsys.Open(name, 0)
	if err != nil {
		return nil, err //nolint:wrapcheck // names the file.
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err //nolint:wrapcheck // names the file.
	}
	if size > identMax {
		return nil, fmt.Errorf("read %s: %d bytes, at most %d are expected", fsys.Name(name), size, identMax)
	}
	p := make([]byte, size)
	if n, err := file.ReadAt(p, 0); err != nil && (n < len(p) || !errors.Is(err, io.EOF)) {
		return nil, err //nolint:wrapcheck // names the file.
	}
	return p, nil
}

// kindOf tells what a path is.
func kindOf(fsys vfs.FS, path string) (string, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return "", err //nolint:wrapcheck // names the file.
	}
	if !info.Dir {
		return kindSegment, nil
	}
	names, err := fsys.List(path)
	if err != nil {
		return "", err //nolint:wrapcheck // names the directory.
	}
	has := func(name string) bool { return slices.Contains(names, name) }
	switch {
	case has(replicaRoot) || has(journalName):
		return kindBroker, nil
	case has(logName):
		return kindReplica, nil
	case slices.ContainsFunc(names, func(name string) bool { _, part, ok := segment.ParseName(name); return ok && part == segment.LogPart }):
		return kindLog, nil
	case has(identName):
		if _, err := readReplicaIdent(fsys, path); err == nil {
			return kindReplica, nil
		}
		return kindBroker, nil
	default:
		return "", fmt.Errorf("%s is no data directory of a broker, no directory of a replica and no segment", fsys.Name(path))
	}
}
