package compact

import (
	"math"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Stats says what a Rewriter did.
type Stats struct {
	RecordsIn, RecordsOut int64
	BytesIn, BytesOut     int64
	// Tombstone is the append time, microseconds since 1970, of the oldest tombstone that is too young to go; 0 = none is.
	Tombstone int64
}

// Changed tells whether anything went.
func (s Stats) Changed() bool { return s.BytesOut != s.BytesIn }

// Rewriter makes the batches of a segment anew, one after the other. Add takes the next one, Finish ends the segment; both hand finished ones to
// emit, whose argument is valid during the call only.
type Rewriter struct {
	keys *Keys
	// tombstonesBefore: a tombstone that was appended before this, microseconds since 1970, has been there long enough. 0 = none has.
	tombstonesBefore int64
	emit             func(msg []byte) error

	stats   Stats
	reader  batch.Reader
	builder batch.Builder
	deltas  []uint32
	kept    []bool
	built   []byte
	// held is the last batch of records, whole: what follows may become part of it. waiting tells that there is one.
	held    []byte
	waiting bool
	at      batch.Header // of held
}

// NewRewriter makes a Rewriter.
func NewRewriter(keys *Keys, tombstonesBefore int64, emit func(msg []byte) error) *Rewriter {
	w := &Rewriter{keys: keys, tombstonesBefore: tombstonesBefore, emit: emit}
	w.builder.Limit = batch.MaxBytes
	return w
}

// Stats tells what was done so far.
func (w *Rewriter) Stats() Stats { return w.stats }

// Look tells whether anything of a batch is to go, without making anything. A Rewriter that looks at all batches of a segment and finds nothing
// has the Tombstone of its Stats.
func (w *Rewriter) Look(h *batch.Header, msg []byte) bool {
	if h.IsControl() || w.reader.Reset(msg) != nil {
		return false
	}
	return w.choose(h) < w.reader.Len()
}

// Add takes the next batch of the segment.
func (w *Rewriter) Add(h *batch.Header, msg []byte) error {
	w.stats.BytesIn += int64(len(msg))
	w.stats.RecordsIn += int64(h.RecordCount)
	if h.IsControl() || w.reader.Reset(msg) != nil {
		if err := w.flush(); err != nil {
			return err
		}
		w.stats.RecordsOut += int64(h.RecordCount)
		return w.put(msg)
	}
	switch left := w.choose(h); {
	case left == 0:
		return w.gap(h)
	case left == w.reader.Len():
	default:
		if w.rebuild(h, msg) {
			msg = w.built
			break
		}
		w.leave()
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.hold(msg)
}

// Finish ends the segment.
func (w *Rewriter) Finish() error { return w.flush() }

// choose decides about the records of the batch that was read, and gives how many stay.
func (w *Rewriter) choose(h *batch.Header) (left int) {
	drop := h.AppendTime < w.tombstonesBefore
	w.kept = w.kept[:0]
	var rec batch.Record
	for i := range w.reader.Len() {
		w.reader.Record(i, &rec)
		fate := w.keys.judge(&rec, partition.Offset(w.reader.Offset(i)), drop)
		w.kept = append(w.kept, fate != goes)
		if fate != goes {
			left++
		}
		if fate == tombstone && !drop && w.stats.Tombstone == 0 {
			w.stats.Tombstone = h.AppendTime // append times do not fall
		}
	}
	return left
}

// rebuild makes the batch of the records that stay; false where that gains nothing.
func (w *Rewriter) rebuild(h *batch.Header, msg []byte) bool {
	w.builder.Reset()
	w.deltas = w.deltas[:0]
	var rec batch.Record
	for i, kept := range w.kept {
		if !kept {
			continue
		}
		w.reader.Record(i, &rec)
		if w.builder.Add(rec) != nil {
			return false
		}
		w.deltas = append(w.deltas, uint32(w.reader.Offset(i)-h.BaseOffset))
	}
	_, hashes := w.reader.KeyHash(0)
	built, err := w.builder.Build(w.built[:0], batch.BuildOptions{
		ProducerID: h.ProducerID, BaseSequence: h.BaseSequence, DedupeKey: h.DedupeKey, MapVersion: h.MapVersion, Codec: h.Codec,
		KeyHashes: hashes, OffsetDeltas: w.deltas,
	})
	if err != nil || len(built) >= len(msg) {
		return false
	}
	w.built = built
	batch.Widen(built, h.LastOffsetDelta)
	batch.Stamp(built, h.Stamps())
	return true
}

// leave notes that what should have gone from the batch that was read stays.
func (w *Rewriter) leave() {
	var rec batch.Record
	for i, kept := range w.kept {
		if !kept {
			w.reader.Record(i, &rec)
			w.keys.leave(&rec, partition.Offset(w.reader.Offset(i)))
		}
	}
}

// gap takes a batch away: the one before spans its offsets, or one without records does.
func (w *Rewriter) gap(h *batch.Header) error {
	if w.waiting {
		if delta := h.NextOffset() - 1 - w.at.BaseOffset; delta <= math.MaxUint32 {
			batch.Widen(w.held, uint32(delta))
			return nil
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.held = batch.BuildGap(w.held[:0], h.Stamps(), h.LastOffsetDelta)
	w.waiting, w.at = true, *h
	w.at.RecordCount = 0
	return nil
}

// hold keeps a batch of records until the next one is known.
func (w *Rewriter) hold(msg []byte) error {
	h, err := batch.ParseHeader(msg)
	if err != nil {
		return err
	}
	w.held, w.waiting, w.at = append(w.held[:0], msg...), true, h
	return nil
}

func (w *Rewriter) flush() error {
	if !w.waiting {
		return nil
	}
	w.waiting = false
	w.stats.RecordsOut += int64(w.at.RecordCount)
	return w.put(w.held)
}

func (w *Rewriter) put(msg []byte) error {
	w.stats.BytesOut += int64(len(msg))
	return w.emit(msg)
}
