package commit

import (
	"bytes"
	"log/slog"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/replay"
)

// Replay brings what the journal's ring holds into the logs' files: all of it is written again, then everything is synced, then the marks of a
// new generation end the redo's life and the ring is empty. A crash in between leaves it to be done again. dir gives the directory of a
// replica's log. Called before any log is opened.
func Replay(fsys vfs.FS, j *journal.Journal, dir func(partition.UUID) string, log *slog.Logger) error {
	found := j.Redo()
	if found == nil {
		return nil
	}
	copies := map[partition.UUID][]replay.Copy{}
	lost := 0
	for _, r := range found {
		kept, known := j.Replica(r.Replica)
		if !known || r.Generation < kept.Mark.Generation {
			continue // deleted, or cut since
		}
		c := replay.Copy{Redo: r.Redo}
		if r.Lost {
			lost++
		} else {
			c.Read = func(p []byte) error { return j.ReadRedo(r, p) }
		}
		copies[r.Replica] = append(copies[r.Replica], c)
	}
	replicas := make([]partition.UUID, 0, len(copies))
	for id := range copies {
		replicas = append(replicas, id)
	}
	slices.SortFunc(replicas, func(a, b partition.UUID) int { return bytes.Compare(a[:], b[:]) })
	var marks []journal.Record
	for _, id := range replicas {
		kept, _ := j.Replica(id)
		mark, err := replay.Log(fsys, dir(id), kept.Mark, copies[id])
		if err != nil {
			return fault.Wrap("replay redo of replica "+id.String(), err)
		}
		marks = append(marks, journal.Mark(id, mark))
	}
	if len(replicas) > 0 {
		if err := fsys.SyncAll(); err != nil {
			return fault.Errorf(fault.DiskPoisoned, "sync what was replayed: %w", err)
		}
	}
	if lost > 0 {
		log.Warn("the journal's ring is damaged, the logs show whether they hold what it lost", "entries", lost)
	}
	log.Info("replayed the journal", "entries", len(found), "replicas", len(replicas))
	return fault.Wrap("end redo", j.Settle(marks...))
}
