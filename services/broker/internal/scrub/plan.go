package scrub

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seedqueue/sq/libs/partition"
)

// Segment is a sealed segment on this disk.
type Segment struct {
	Replica   partition.UUID
	Partition partition.ID
	File      string // its log part, below the FS's root
	Base, End partition.Offset
	Size      int64
	Tag       uint64 // of the partition
	Chain     uint64 // chain word of the batch at End
	SHA256    [32]byte
}

// key names a segment for ever: replicas are never made twice, and a sealed segment never changes.
type key struct {
	replica partition.UUID
	base    partition.Offset
}

func (s *Segment) key() key { return key{s.Replica, s.Base} }

// plan decides which segment is read when.
type plan struct {
	interval time.Duration
	salt     uint64 // orders segments of the same age
	known    map[key]*memory
	pass     uint64    // its number, from 1
	listed   bool      // the segments of the pass are known
	last     time.Time // the last segment was begun
	size     int64     // of the last segment
}

// memory is what is known of a segment.
type memory struct {
	pass   uint64    // the last pass that read it, or that it came too late for
	looked time.Time // when that was
}

func newPlan(interval time.Duration, salt uint64) *plan {
	return &plan{interval: interval, salt: salt, known: map[key]*memory{}, pass: 1}
}

// next gives the segment that was not looked at for the longest time, and when to begin with it; ok is false where there is none. A segment
// that is new counts as looked at now, whoever sealed it has just read it, and belongs to the next pass.
func (p *plan) next(all []Segment, now time.Time) (s Segment, at time.Time, ok bool) {
	p.forget(all)
	var total int64
	var oldest *memory
	var rank uint64
	for i := range all {
		k := all[i].key()
		m := p.known[k]
		if m == nil {
			m = &memory{looked: now, pass: p.pass}
			if !p.listed {
				m.pass--
			}
			p.known[k] = m
		}
		total += all[i].Size
		r := p.rank(k)
		if !ok || cmp.Or(cmp.Compare(m.pass, oldest.pass), m.looked.Compare(oldest.looked), cmp.Compare(r, rank)) < 0 {
			s, oldest, rank, ok = all[i], m, r, true
		}
	}
	p.listed = p.listed || ok
	if p.last.IsZero() || total == 0 {
		return s, now, ok
	}
	share := min(float64(p.size)/float64(total), 1)
	return s, p.last.Add(time.Duration(share * float64(p.interval))), ok
}

// begin notes that a segment is being read.
func (p *plan) begin(s *Segment, now time.Time) { p.last, p.size = now, s.Size }

// done notes that a segment was read, and tells whether that was the last one of a pass. What is not in all is not waited for.
func (p *plan) done(s *Segment, all []Segment, now time.Time) bool {
	if m := p.known[s.key()]; m != nil {
		m.looked, m.pass = now, p.pass
	}
	for i := range all {
		if m := p.known[all[i].key()]; m != nil && m.pass < p.pass {
			return false
		}
	}
	p.pass++
	return true
}

// forget drops what is not on the disk any more.
func (p *plan) forget(all []Segment) {
	if len(p.known) <= len(all) {
		return
	}
	there := make(map[key]bool, len(all))
	for i := range all {
		there[all[i].key()] = true
	}
	for k := range p.known {
		if !there[k] {
			delete(p.known, k)
		}
	}
}

func (p *plan) rank(k key) uint64 {
	var b [32]byte
	copy(b[:16], k.replica[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(k.base))
	binary.LittleEndian.PutUint64(b[24:], p.salt)
	return xxhash.Sum64(b[:])
}
