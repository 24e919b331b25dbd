package lease

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seedqueue/sq/libs/vfs"
)

const (
	fileName = "heartbeat"
	// blockBytes is what a direct read is a multiple of.
	blockBytes = 4096
)

// beat is the heartbeat file: one block that is written over and over, so that a full disk does not stop it.
type beat struct {
	write vfs.File
	read  vfs.File
	count uint64
}

// openBeat makes the file.
func openBeat(dir vfs.FS) (*beat, error) {
	write, err := dir.Open(fileName, vfs.Write|vfs.Create)
	if err != nil {
		return nil, fmt.Errorf("open heartbeat: %w", err)
	}
	b := &beat{write: write}
	if err := b.prepare(dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *beat) prepare(dir vfs.FS) (err error) {
	if _, err := b.write.WriteAt(make([]byte, blockBytes), 0); err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	if err := errors.Join(b.write.Sync(), dir.SyncDir(".")); err != nil {
		return fmt.Errorf("sync heartbeat: %w", err)
	}
	if b.read, err = dir.Open(fileName, vfs.Direct); err != nil {
		return fmt.Errorf("open heartbeat past the page cache: %w", err)
	}
	return nil
}

// once writes, syncs and reads back. It blocks for as long as the disk does.
func (b *beat) once() error {
	b.count++
	block := make([]byte, blockBytes)
	binary.LittleEndian.PutUint64(block, b.count)
	if _, err := b.write.WriteAt(block, 0); err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	if err := b.write.Datasync(); err != nil {
		return fmt.Errorf("sync heartbeat: %w", err)
	}
	back := make([]byte, blockBytes)
	if _, err := b.read.ReadAt(back, 0); err != nil {
		return fmt.Errorf("read heartbeat back: %w", err)
	}
	if !bytes.Equal(block, back) {
		return errors.New("read heartbeat back: the disk gives other bytes than were written")
	}
	return nil
}

func (b *beat) close() error {
	err := b.write.Close()
	if b.read != nil {
		err = errors.Join(err, b.read.Close())
	}
	return err
}
