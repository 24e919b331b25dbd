package standin

import (
	"sync"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Log is the log of one partition.
type Log struct {
	mu struct {
		sync.Mutex
		batches    []stored
		next       uint64
		start      uint64
		localStart uint64
		tierEnd    uint64
		dedupe     map[batch.Key128]stored
		grown      chan struct{}
	}
}

type stored struct {
	base, next uint64
	appendTime int64
	control    bool
	msg        []byte
}

// NewLog makes an empty log.
func NewLog() *Log {
	l := &Log{}
	l.mu.dedupe = map[batch.Key128]stored{}
	l.mu.grown = make(chan struct{})
	return l
}

// Append stamps a copy of an unstamped batch and appends it. duplicate: its dedupe key was there.
func (l *Log) Append(msg []byte, h batch.Header, epoch partition.Epoch, appendTime int64) (base, last uint64, duplicate bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.mu.dedupe[h.DedupeKey]; ok && !h.DedupeKey.IsZero() {
		return old.base, old.next - 1, true
	}
	msg = append([]byte(nil), msg...)
	base = l.mu.next
	batch.Stamp(msg, batch.Stamps{BaseOffset: base, Epoch: uint64(epoch), AppendTime: appendTime})
	one := stored{base: base, next: base + uint64(h.LastOffsetDelta) + 1, appendTime: appendTime, control: h.IsControl(), msg: msg}
	l.mu.batches = append(l.mu.batches, one)
	l.mu.next = one.next
	if !h.DedupeKey.IsZero() {
		l.mu.dedupe[h.DedupeKey] = one
	}
	close(l.mu.grown)
	l.mu.grown = make(chan struct{})
	return one.base, one.next - 1, false
}

// End is where the next record goes; all is committed.
func (l *Log) End() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.next
}

// Tier says that the bucket covers the log up to end, and that the broker has dropped what lies before localStart.
func (l *Log) Tier(localStart, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.localStart, l.mu.tierEnd = localStart, end
}

// Trim moves the log start.
func (l *Log) Trim(before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.start = max(l.mu.start, min(before, l.mu.next))
	l.mu.localStart = max(l.mu.localStart, l.mu.start)
}

// read gives whole batches from offset on below limit, one at least, and where to read on.
func (l *Log) read(offset, limit uint64, maxBytes int) (body []byte, next uint64) {
	next = offset
	for _, b := range l.mu.batches {
		if b.next <= offset || b.base >= limit {
			continue
		}
		if len(body) > 0 && len(body)+len(b.msg) > maxBytes {
			break
		}
		body, next = append(body, b.msg...), b.next
	}
	return body, next
}

// find gives the first offset in [from, to) that was appended at or after a time, else to.
func (l *Log) find(from, to uint64, time int64) uint64 {
	for _, b := range l.mu.batches {
		if b.base >= from && b.base < to && b.appendTime >= time {
			return b.base
		}
	}
	return to
}
