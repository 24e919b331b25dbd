package sealed

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
)

// closing is a segment on its way from closed to sealed.
type closing struct {
	base, end partition.Offset
	digesting bool
	digested  bool
	seal      Seal
	proposed  bool
	at        partition.Offset // of the proposed Seal
}

// Closing is the queue of closed segments whose Seal is not committed, oldest first. The zero value is empty.
type Closing struct {
	queue []closing
}

// Add puts a segment in its place that was just cut, or that recovery found closed. One that is known is not added again.
func (c *Closing) Add(base, end partition.Offset) {
	i, known := slices.BinarySearchFunc(c.queue, base, func(s closing, base partition.Offset) int { return cmp.Compare(s.base, base) })
	if !known {
		c.queue = slices.Insert(c.queue, i, closing{base: base, end: end})
	}
}

// End is where the newest closed segment ends, 0 = none waits.
func (c *Closing) End() partition.Offset {
	if n := len(c.queue); n > 0 {
		return c.queue[n-1].end
	}
	return 0
}

// Digest gives the next segment whose digest is to be computed, and takes note that it is being done. The log has closed a segment when the
// batch behind it is written.
func (c *Closing) Digest(written partition.Offset) (base, end partition.Offset, ok bool) {
	for i := range c.queue {
		s := &c.queue[i]
		if s.end >= written {
			break
		}
		if !s.digesting && !s.digested {
			s.digesting = true
			return s.base, s.end, true
		}
	}
	return 0, 0, false
}

// Digested takes in a digest. One that nobody waits for is ignored.
func (c *Closing) Digested(seal Seal) {
	for i := range c.queue {
		s := &c.queue[i]
		if s.base == seal.Base && s.end == seal.End && s.digesting {
			s.digesting, s.digested, s.seal = false, true, seal
		}
	}
}

// Undigested takes back that a digest is being computed: it could not be.
func (c *Closing) Undigested(base partition.Offset) {
	for i := range c.queue {
		if s := &c.queue[i]; s.base == base {
			s.digesting = false
		}
	}
}

// Propose gives the oldest Seal that may go into the log now: digest known, end at or below the high watermark (R13), and none before it
// waiting. The caller appends it at the offset at. sealedEnd is how far the log is sealed by what is committed.
func (c *Closing) Propose(sealedEnd, hw, at partition.Offset) (Seal, bool) {
	for i := range c.queue {
		s := &c.queue[i]
		if s.base != sealedEnd {
			return Seal{}, false
		}
		if s.proposed {
			sealedEnd = s.end
			continue
		}
		if !s.digested || s.end > hw {
			return Seal{}, false
		}
		s.proposed, s.at = true, at
		return s.seal, true
	}
	return Seal{}, false
}

// Cut takes back what the log lost at or above to: Seals that were proposed there, and segments that are open again, as is one that ended
// there: the batch that began the next one is gone.
func (c *Closing) Cut(to partition.Offset) {
	c.queue = slices.DeleteFunc(c.queue, func(s closing) bool { return s.end >= to })
	for i := range c.queue {
		if c.queue[i].proposed && c.queue[i].at >= to {
			c.queue[i].proposed = false
		}
	}
}

// Made tells whether a Seal says what was found in the own file.
func (c *Closing) Made(seal Seal) bool {
	return slices.ContainsFunc(c.queue, func(s closing) bool { return s.digested && s.seal == seal })
}

// Sealed forgets the segments up to an end whose Seal is committed.
func (c *Closing) Sealed(end partition.Offset) {
	c.queue = slices.DeleteFunc(c.queue, func(s closing) bool { return s.end <= end })
}
