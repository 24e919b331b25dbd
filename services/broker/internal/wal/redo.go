package wal

import (
	"github.com/seedqueue/sq/libs/segment"
)

// Unpersisted names what is written and neither synced nor in a journal; false if there is nothing. It is all in the open segment: the ones
// before are durable.
func (l *Log) Unpersisted() (segment.Redo, bool) {
	v, from := l.view.Load(), l.persisted.Load()
	if v.broken || v.open == nil || from.Generation != v.generation || from.Offset >= v.tail.End {
		return segment.Redo{}, false
	}
	position := from.Position
	if from.Base != v.open.Base {
		position = 0 // the segment before is durable up to its end
	}
	return segment.Redo{
		Generation: v.generation, Base: v.open.Base, Offset: from.Offset, End: v.tail.End,
		Position: position, Length: v.tail.SegmentBytes - position, Chain: from.Chain, Next: v.tail.Chain,
	}, true
}

// ReadRedo reads the bytes that r names, all of which fit in p.
func (l *Log) ReadRedo(r segment.Redo, p []byte) error {
	source, err := l.view.Load().source(r.Base)
	if err != nil {
		return err
	}
	file, err := source.File().Pin()
	if err != nil {
		return diskError("open", err)
	}
	defer source.File().Unpin()
	if _, err := file.ReadAt(p[:r.Length], r.Position); err != nil {
		return diskError(op("read redo", r.Offset), err)
	}
	return nil
}

// Journaled says that a journal holds r durably.
func (l *Log) Journaled(r segment.Redo) { l.advance(r.Mark()) }

// advance moves what is persisted forward, within its generation.
func (l *Log) advance(m segment.Mark) {
	for {
		now := l.persisted.Load()
		if now.Generation != m.Generation || now.Offset >= m.Offset {
			return
		}
		if l.persisted.CompareAndSwap(now, &m) {
			return
		}
	}
}
