package journal

import (
	"errors"
	"io/fs"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// Sync makes everything that was Put before durable. Whoever finds no flush running does it, for all that came until then; whoever finds
// one waits for its end, and is then done or part of the next. fault.DiskFull leaves the records pending; any other error poisons.
func (j *Journal) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	target := j.mu.next
	for {
		switch {
		case j.mu.err != nil:
			return j.mu.err
		case j.mu.durable >= target:
			return nil
		case j.mu.flushing:
			j.awaitFlush()
		default:
			if err := j.flush(); err != nil {
				return err
			}
		}
	}
}

// awaitFlush waits for the end of the running flush. Called and returns with the lock held.
func (j *Journal) awaitFlush() {
	flushed := j.mu.flushed
	j.mu.Unlock()
	<-flushed
	j.mu.Lock()
}

// flush makes all pending records durable. Called and returns with the lock held, without it in between.
func (j *Journal) flush() error {
	records, size := j.mu.pending, j.mu.pendingBytes
	first, next := j.mu.durable, j.mu.next
	j.mu.pending, j.mu.pendingBytes = nil, 0
	j.mu.flushing, j.mu.flushed = true, make(chan struct{})
	due := j.position+int64(size) > j.room
	var state State
	if due {
		state = j.mu.state.clone() // with the pending records: they become durable as part of it
	}
	j.mu.Unlock()

	var err error
	if due {
		err = j.checkpoint(&state, next)
		if isFull(err) {
			j.log.Warn("journal goes on without a checkpoint", "err", err, "number", j.number)
			j.room = j.position + int64(size) + j.limits.CheckpointBytes
			due = false
		}
	}
	if !due {
		err = j.write(records, first)
	}

	j.mu.Lock()
	j.mu.flushing = false
	close(j.mu.flushed)
	switch {
	case err == nil:
		j.mu.durable = next
		return nil
	case isFull(err):
		j.mu.pending = append(records, j.mu.pending...)
		j.mu.pendingBytes += size
		return diskError("write journal", err)
	default:
		j.mu.err = &fault.Error{Kind: fault.DiskPoisoned, Op: "write journal", Err: err}
		return j.mu.err
	}
}

// write appends records, the first of which has sequence first; everything before is durable. What a failure leaves behind the position
// is written over by the next attempt.
func (j *Journal) write(records []Record, first uint64) error {
	buffer := j.buffer[:0]
	for i, r := range records {
		buffer = appendFrame(buffer, j.number, frame{r, first + uint64(i), first})
	}
	j.buffer = buffer
	if _, err := j.file.WriteAt(buffer, j.position); err != nil {
		return err
	}
	if err := j.file.Datasync(); err != nil {
		return err
	}
	j.position += int64(len(buffer))
	return nil
}

// checkpoint replaces the file by one that holds state as of next. Until the new name is durable, the old file is the journal. The new file
// gets its blocks by writing zeros, so that what follows is overwritten in place: faster, and it fits on a full disk.
func (j *Journal) checkpoint(state *State, next uint64) error {
	records := state.records()
	number := j.number + 1
	first := next - uint64(len(records)) // not below 1: each of them stands for at least one that was Put
	buffer := header{number, first, uint64(len(records))}.append(nil)
	for i, r := range records {
		buffer = appendFrame(buffer, number, frame{r, first + uint64(i), first})
	}
	live := int64(len(buffer))
	room := live + max(j.limits.CheckpointBytes, live)
	file, err := j.writeFile(number, append(buffer, make([]byte, room-live)...))
	if err != nil {
		return err
	}
	if j.file != nil {
		if err := j.file.Close(); err != nil {
			j.log.Warn("cannot close an old journal", "err", err, "number", j.number)
		}
	}
	j.file, j.number, j.position, j.room = file, number, live, room
	j.removeOld()
	return nil
}

// writeFile makes a file with these bytes durable under its name.
func (j *Journal) writeFile(number uint64, p []byte) (vfs.File, error) {
	name := j.dir + "/" + fileName(number)
	temp := name + tempSuffix
	if err := j.fs.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := j.fs.Open(temp, vfs.Write|vfs.Create|vfs.Exclusive)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteAt(p, 0)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), j.fs.Remove(temp))
	}
	err = j.fs.Rename(temp, name)
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		// Whether the new name survives a crash is unknown, so nothing may be written to the old file any more: not even a full disk
		// is harmless here, and its errno must not be found in the chain.
		return nil, errors.Join(errors.New("name journal: "+err.Error()), file.Close())
	}
	return file, nil
}

// removeOld removes what the current file has replaced. What stays is removed at the next checkpoint.
func (j *Journal) removeOld() {
	numbers, unfinished, err := files(j.fs, j.dir)
	for _, number := range numbers {
		if number < j.number {
			err = errors.Join(err, j.fs.Remove(j.dir+"/"+fileName(number)))
		}
	}
	for _, name := range unfinished {
		err = errors.Join(err, j.fs.Remove(j.dir+"/"+name))
	}
	if err != nil {
		j.log.Warn("cannot remove an old journal", "err", err, "number", j.number)
	}
}
