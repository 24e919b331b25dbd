package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// Options say how to look.
type Options struct {
	// Active: a broker uses the directory.
	Active bool
	// Quick reads headers only: framing, header checksums, chain and contiguity, but neither bodies nor digests.
	Quick bool
}

// Verify checks a broker's data directory, a replica's, a log's, or one segment file. fsys should be rooted at the broker's data directory, where
// there is one: the journal in it is evidence about every log. An error means that there is nothing to check, or that ctx ended.
func Verify(ctx context.Context, fsys vfs.FS, name string, o Options) (*Report, error) {
	name = path.Clean(name)
	kind, err := kindOf(fsys, name)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "verify: %w", err)
	}
	v := &verifier{ctx: ctx, fs: fsys, opts: o, out: &Report{Path: fsys.Name(name), Kind: kind, Active: o.Active, Quick: o.Quick}}
	switch kind {
	case kindBroker:
		v.broker(name)
	case kindReplica:
		v.evidence(".")
		v.replica(name)
	case kindLog:
		v.evidence(".")
		v.logDir(name)
	default:
		v.evidence(".")
		v.file(name)
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap("verify", err)
	}
	return v.out, nil
}

// verifier is a Verify at work.
type verifier struct {
	ctx     context.Context //nolint:containedctx // the verifier lives as long as one call
	fs      vfs.FS
	opts    Options
	out     *Report
	cluster partition.UUID // zero = not known
	known   map[partition.UUID]journal.Replica
}

// broker checks a whole data directory.
func (v *verifier) broker(dir string) {
	if dir != "." {
		v.out.note(v.fs.Name(dir), "the directory is not the root of what may be read")
		return
	}
	id, ok, err := ident.Read(v.fs)
	switch {
	case err != nil:
		v.out.found(segment.Corrupt, v.fs.Name(identName), "the identity of the data directory cannot be used, and the broker does not start: %v", err)
	case !ok:
		v.out.note(v.fs.Name("."), "the directory has no identity yet")
	default:
		v.cluster = id.Cluster
	}
	journalled := v.journal()
	names, err := v.fs.List(replicaRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.out.found(segment.Corrupt, v.fs.Name(replicaRoot), "the replicas cannot be listed: %v", err)
	}
	seen := map[partition.UUID]bool{}
	for _, name := range names {
		replica, err := partition.ParseUUID(name)
		if err != nil {
			v.out.note(v.fs.Name(replicaRoot+"/"+name), "it is no directory of a replica")
			continue
		}
		seen[replica] = true
		if _, known := v.known[replica]; journalled && !known {
			v.out.note(v.fs.Name(replicaRoot+"/"+name), "the journal does not know this replica: a crash left it while it was made or deleted")
		}
		v.replica(replicaRoot + "/" + name)
	}
	for replica, known := range v.known {
		if !seen[replica] && !v.opts.Active {
			v.out.add(Finding{
				File: v.fs.Name(replicaRoot + "/" + replica.String()), Partition: known.ID.String(), Class: segment.Corrupt.String(),
				Text: "the journal knows this replica and its directory is missing: its data is gone",
			})
		}
	}
}

// evidence reads the journal of the broker around a single log, where there is one.
func (v *verifier) evidence(root string) {
	if info, err := v.fs.Stat(path.Join(root, journalName)); err == nil && info.Dir {
		v.journal()
	}
}

// journal checks the journal and keeps what it knows about the replicas; false if that is nothing.
func (v *verifier) journal() bool {
	name := v.fs.Name(path.Join(journalName, newestJournal(v.fs)))
	reading, err := journal.Inspect(v.fs, journalName, nil)
	bad := func(class segment.Class, text string) {
		v.out.add(Finding{File: name, Position: &reading.Position, Class: class.String(), Text: text})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && v.opts.Active:
		v.out.note(name, "the journal was replaced while it was read; it is not checked")
		return false
	case errors.Is(err, fs.ErrNotExist):
		if _, err := v.fs.Stat(replicaRoot); err == nil {
			v.out.found(segment.Corrupt, name, "the journal is missing, and there are replicas: what they promised is not known, and the broker does not start")
		}
		return false
	case err != nil:
		bad(segment.Corrupt, fmt.Sprintf("the journal is damaged, and the broker does not start: %v", err))
		return false
	}
	if reading.Torn > 0 {
		text := fmt.Sprintf("record %d is torn: %d bytes behind the last valid one belong to a write that nobody was answered for", reading.Next, reading.Torn)
		if v.opts.Active {
			v.out.note(name, "%s; the broker is writing there", text)
		} else {
			bad(segment.Torn, text+"; the next start leaves them behind")
		}
	}
	v.known = reading.State.Replicas
	v.ring(reading.State.Ring)
	return true
}

// ring checks the journal's ring. A log whose newest records are there only is not at fault: the next start brings them into its file.
func (v *verifier) ring(s journal.RingState) {
	if v.opts.Active {
		return // it changes under our eyes
	}
	name := v.fs.Name(path.Join(journalName, journal.RingFile))
	redo, err := journal.InspectRing(v.fs, journalName, s)
	if err != nil {
		v.out.found(segment.Corrupt, name, "the ring is damaged, and the broker does not start: %v", err)
		return
	}
	lost := 0
	for _, r := range redo {
		if known, ok := v.known[r.Replica]; ok {
			known.HW = min(known.HW, known.Mark.Offset)
			v.known[r.Replica] = known
		}
		if r.Lost {
			lost++
		}
	}
	if len(redo) > 0 {
		v.out.note(name, "the broker did not stop cleanly: the next start brings %d appends from here into the logs", len(redo))
	}
	if lost > 0 {
		v.out.found(segment.Corrupt, name, "%d of %d appends cannot be read: the logs they are of may lack them", lost, len(redo))
	}
}

// newestJournal names the file that counts; "" if there is none.
func newestJournal(fsys vfs.FS) string {
	names, _ := fsys.List(journalName) // what cannot be listed is told by who reads it
	for _, name := range slices.Backward(names) {
		if journal.IsFile(name) {
			return name
		}
	}
	return ""
}

// replica checks a replica's directory.
func (v *verifier) replica(dir string) {
	v.out.Replicas++
	log, at, listErr := install.Dir(v.fs, dir)
	l := v.newLog(log)
	id, err := readReplicaIdent(v.fs, dir)
	known, journalled := journal.Replica{}, false
	if replica, parseErr := partition.ParseUUID(path.Base(dir)); parseErr == nil {
		known, journalled = v.known[replica]
		if err == nil && id.Replica != replica {
			err = fmt.Errorf("it says replica %s", id.Replica)
		}
	} else if err == nil {
		known, journalled = v.known[id.Replica]
	}
	switch {
	case err != nil && v.vanished(err):
		return
	case err != nil && errors.Is(err, fs.ErrNotExist) && !journalled:
		v.out.note(v.fs.Name(dir), "the replica has no ident: a crash left it while it was made")
	case err != nil:
		v.out.found(segment.Corrupt, v.fs.Name(dir+"/"+identName), "the ident of the replica cannot be used, and the replica is not opened: %v", err)
	case !v.cluster.IsZero() && id.Cluster != v.cluster:
		v.out.found(segment.Corrupt, v.fs.Name(dir+"/"+identName), "the replica belongs to cluster %s, the data directory to cluster %s", id.Cluster, v.cluster)
	case journalled && known.ID != id.id():
		v.out.found(segment.Corrupt, v.fs.Name(dir+"/"+identName), "the replica says that it is of partition %s, the journal says %s", id.id(), known.ID)
	}
	if err == nil {
		l.identify(id)
	}
	if at.Generation > 0 { // it was begun anew, behind what the leader has no more
		known.Origin = journal.Origin{Offset: at.At, Chain: at.Chain}
	}
	if listErr != nil && !v.vanished(listErr) {
		v.out.found(segment.Corrupt, v.fs.Name(dir), "the directory of the replica cannot be read: %v", listErr)
	}
	l.known, l.journalled = known, journalled
	l.verify(nil)
}

// logDir checks a directory of segments.
func (v *verifier) logDir(dir string) {
	l := v.newLog(dir)
	l.surround()
	l.verify(nil)
}

// file checks one segment file with what lies beside it.
func (v *verifier) file(name string) {
	l := v.newLog(path.Dir(name))
	l.surround()
	base, part, ok := segment.ParseName(path.Base(name))
	switch {
	case ok && part == segment.LogPart:
		l.verify(&base)
	case ok:
		v.out.note(v.fs.Name(name), "it is derived from a log: see 'sq inspect index' and 'sq inspect snapshot'; what was checked is its segment")
		l.verify(&base)
	default:
		l.loose(name)
	}
}

// vanished tells whether a file is missing because a running broker took it away.
func (v *verifier) vanished(err error) bool { return v.opts.Active && errors.Is(err, fs.ErrNotExist) }
