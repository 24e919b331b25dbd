package install

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

const (
	logName    = "log"
	tempSuffix = ".tmp"
)

// Place is where a log begins. The zero value is that of a replica's first log.
type Place struct {
	Generation uint64 // of the mark that decided
	At         partition.Offset
	Chain      uint64 // chain word of the batch at At
}

// Mark is what the journal says when the log that begins here is the replica's.
func (p Place) Mark() segment.Mark {
	return segment.Mark{Generation: p.Generation, Base: p.At, Offset: p.At, Chain: p.Chain}
}

func (p Place) name() string {
	if p.Generation == 0 {
		return logName
	}
	return fmt.Sprintf("%s.%016x-%020d-%016x", logName, p.Generation, uint64(p.At), p.Chain)
}

// parse reads a name; temp: of what is not yet in place.
func parse(name string) (p Place, temp, ok bool) {
	name, temp = strings.CutSuffix(name, tempSuffix)
	if name == logName && !temp {
		return p, false, true
	}
	_, err := fmt.Sscanf(name, logName+".%016x-%020d-%016x", &p.Generation, (*uint64)(&p.At), &p.Chain)
	return p, temp, err == nil && p.Generation > 0 && p.name() == name
}

// Dir finds the log in a replica's directory.
func Dir(fsys vfs.FS, dir string) (log string, at Place, err error) {
	err = each(fsys, dir, func(_ string, p Place, temp bool) error {
		if !temp && p.Generation > at.Generation {
			at = p
		}
		return nil
	})
	return dir + "/" + at.name(), at, err
}

// each visits what is, or will be, a log in a replica's directory.
func each(fsys vfs.FS, dir string, visit func(path string, p Place, temp bool) error) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("list "+fsys.Name(dir), err)
	}
	for _, name := range names {
		if p, temp, ok := parse(name); ok {
			if err := visit(dir+"/"+name, p, temp); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open puts in place what the replica's mark decided, and removes what it did not. It gives the log as Dir does, and what is known of the
// replica with the place where that log begins.
func Open(fsys vfs.FS, dir string, kept journal.Replica) (log string, _ journal.Replica, err error) {
	err = each(fsys, dir, func(path string, p Place, temp bool) error {
		switch {
		case !temp:
			return nil
		case p.Mark() == kept.Mark:
			return Commit(fsys, dir, p)
		default:
			return diskError("remove "+fsys.Name(path), fsys.RemoveAll(path))
		}
	})
	if err != nil {
		return "", kept, err
	}
	log, at, err := Dir(fsys, dir)
	if at.Generation > 0 {
		kept.Origin = journal.Origin{Offset: at.At, Chain: at.Chain}
	}
	return log, kept, err
}

// Logs finds the logs of replicas, whose directories dirOf gives. A disk that fails does so again at the next step.
func Logs(fsys vfs.FS, dirOf func(partition.UUID) string) func(partition.UUID) string {
	return func(replica partition.UUID) string {
		log, _, _ := Dir(fsys, dirOf(replica))
		return log
	}
}

// Prepare makes a log that begins at a place, with the snapshot file of the segment that ends there, whole and durable, but not in place.
// Errors: Corrupt where the snapshot is not of that place, DiskFull, DiskPoisoned.
func Prepare(fsys vfs.FS, dir string, at Place, snapshot []byte) error {
	s, err := segment.ParseSnapshot(snapshot)
	if err != nil || s.End != at.At {
		return fault.Errorf(fault.Corrupt, "install log at %d: snapshot of %d: %w", at.At, s.End, err)
	}
	temp := dir + "/" + at.name() + tempSuffix
	if err := fsys.RemoveAll(temp); err != nil {
		return diskError("clear "+fsys.Name(temp), err)
	}
	if err := fsys.MkdirAll(temp); err != nil {
		return diskError("make "+fsys.Name(temp), err)
	}
	if err := s.Write(fsys, temp); err != nil {
		return fault.Wrap("install log", err)
	}
	return diskError("sync "+fsys.Name(temp), errors.Join(fsys.SyncDir(temp), fsys.SyncDir(dir)))
}

// Commit puts it in place.
func Commit(fsys vfs.FS, dir string, at Place) error {
	name := dir + "/" + at.name()
	return diskError("put "+fsys.Name(name)+" in place", errors.Join(fsys.Rename(name+tempSuffix, name), fsys.SyncDir(dir)))
}

// Clean removes the logs of earlier generations.
func Clean(fsys vfs.FS, dir string) error {
	_, at, err := Dir(fsys, dir)
	if err != nil || at.Generation == 0 {
		return err
	}
	return each(fsys, dir, func(path string, p Place, temp bool) error {
		if temp || p == at {
			return nil
		}
		return diskError("remove "+fsys.Name(path), fsys.RemoveAll(path))
	})
}

// diskError gives an error of the disk its kind; nil stays nil.
func diskError(op string, err error) error {
	if err == nil {
		return nil
	}
	kind := fault.DiskPoisoned
	if vfs.IsFull(err) {
		kind = fault.DiskFull
	}
	return &fault.Error{Kind: kind, Op: op, Err: err}
}
