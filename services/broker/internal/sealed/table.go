package sealed

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// drop is a Drop and the version of the table that no longer names its key.
type drop struct {
	Drop
	version uint64
}

// Table is the tier table of one partition. The zero value is that of an empty log.
type Table struct {
	version   uint64
	logStart  partition.Offset
	tierEnd   partition.Offset
	sealedEnd partition.Offset
	tiered    []Segment // by base; those below the log start stay until dropped
	seals     []Seal    // sealed, not tiered, by base
	drops     []drop
	collected map[string]bool // keys that must not be committed; those below the tier end, which are refused anyway, are forgotten
}

// Version grows with every change.
func (t *Table) Version() uint64 { return t.version }

// LogStart is the first offset that readers may have.
func (t *Table) LogStart() partition.Offset { return t.logStart }

// TierEnd is how far the bucket has the log.
func (t *Table) TierEnd() partition.Offset { return t.tierEnd }

// SealedEnd is how far the log is sealed.
func (t *Table) SealedEnd() partition.Offset { return t.sealedEnd }

// Seals are the sealed segments that are not tiered, from TierEnd on. The slice is a copy.
func (t *Table) Seals() []Seal { return slices.Clone(t.seals) }

// HasSeal tells whether a segment that ends at or below an offset is sealed and not tiered.
func (t *Table) HasSeal(below partition.Offset) bool {
	return len(t.seals) > 0 && t.seals[0].End <= below
}

// TieredFrom gives the segments in the bucket that end behind from. The slice is a copy.
func (t *Table) TieredFrom(from partition.Offset) []Segment {
	segments, _ := t.Tiered(from, len(t.tiered))
	return segments
}

// Tiered gives the segments in the bucket that end behind from, at most n, and whether there are more. The slice is a copy.
func (t *Table) Tiered(from partition.Offset, n int) (segments []Segment, more bool) {
	i := sort.Search(len(t.tiered), func(i int) bool { return t.tiered[i].End > from })
	rest := t.tiered[i:]
	if len(rest) > n {
		rest, more = rest[:n], true
	}
	return slices.Clone(rest), more
}

// Apply folds a committed control batch; next is the offset behind it. Kinds that say nothing about segments change nothing. An error means
// that the batch cannot be read.
func (t *Table) Apply(control batchcapnp.Control, next partition.Offset) error {
	changed, err := t.apply(control, uint64(next))
	if err != nil {
		return fmt.Errorf("apply %s at %d: %w", control.Which(), next-1, err)
	}
	if changed {
		t.version = uint64(next)
	}
	return nil
}

func (t *Table) apply(control batchcapnp.Control, version uint64) (changed bool, err error) {
	switch control.Which() {
	case batchcapnp.Control_Which_seal:
		in, err := control.Seal()
		if err != nil {
			return false, err
		}
		return t.seal(in)
	case batchcapnp.Control_Which_trimTo:
		in, err := control.TrimTo()
		if err != nil {
			return false, err
		}
		return t.trim(partition.Offset(in.Offset())), nil
	case batchcapnp.Control_Which_tierCommit:
		in, err := control.TierCommit()
		if err != nil {
			return false, err
		}
		segments, err := readSegments(in)
		if err != nil {
			return false, err
		}
		return t.commit(segments), nil
	case batchcapnp.Control_Which_tierDrop:
		in, err := control.TierDrop()
		if err != nil {
			return false, err
		}
		keys, err := readTexts(in.Keys())
		if err != nil {
			return false, err
		}
		return t.drop(keys, in.NotBefore(), version), nil
	case batchcapnp.Control_Which_tierCollect:
		in, err := control.TierCollect()
		if err != nil {
			return false, err
		}
		keys, err := readTexts(in.Keys())
		if err != nil {
			return false, err
		}
		return t.collect(keys), nil
	case batchcapnp.Control_Which_compact:
		in, err := ReadCompact(control)
		if err != nil {
			return false, err
		}
		t.compact(in)
		return false, nil // a manifest shows what is tiered
	default:
		return false, nil
	}
}

func (t *Table) seal(in batchcapnp.Control_Seal) (bool, error) {
	s, err := readSeal(in)
	if err != nil {
		return false, err
	}
	if s.Base != t.sealedEnd || s.End <= s.Base {
		return false, nil // again; or not the next, and then a later leader seals it in its turn
	}
	t.sealedEnd = s.End
	if s.End > t.tierEnd {
		t.seals = append(t.seals, s)
	}
	return t.skipTrimmed(), nil // a Seal alone changes nothing that a manifest shows
}

// compact has a Seal say what the segment became. One of a segment that is tiered, or trimmed away, since it was proposed says nothing.
func (t *Table) compact(now Seal) {
	if i := t.sealOf(now); i >= 0 && now.Size < t.seals[i].Size {
		t.seals[i] = now
	}
}

func (t *Table) sealOf(s Seal) int {
	return slices.IndexFunc(t.seals, func(old Seal) bool { return old.Base == s.Base && old.End == s.End })
}

// CheckCompact tells whether a compacted segment may take the place of what a Seal names. Errors: Conflict where it is tiered or gone, or where
// another one has taken its place that is not larger.
func (t *Table) CheckCompact(now Seal) error {
	i := t.sealOf(now)
	switch {
	case i < 0:
		return fault.Errorf(fault.Conflict, "compact segment [%d, %d): it is tiered or gone", now.Base, now.End)
	case now.Size >= t.seals[i].Size:
		return fault.Errorf(fault.Conflict, "compact segment [%d, %d): %d bytes in place of %d", now.Base, now.End, now.Size, t.seals[i].Size)
	}
	return nil
}

func (t *Table) trim(to partition.Offset) bool {
	if to <= t.logStart {
		return false
	}
	t.logStart = to
	t.skipTrimmed()
	return true
}

// skipTrimmed forgets sealed segments that the log start has passed before they were tiered: the bucket never gets them.
func (t *Table) skipTrimmed() (changed bool) {
	n := 0
	for n < len(t.seals) && t.seals[n].End <= t.logStart {
		t.tierEnd = t.seals[n].End
		n++
	}
	t.seals = slices.Delete(t.seals, 0, n)
	return n > 0
}

func (t *Table) commit(segments []Segment) (changed bool) {
	for _, s := range segments {
		if s.Base != t.tierEnd || len(t.seals) == 0 || t.seals[0].Base != s.Base || t.seals[0].End != s.End {
			continue // again, or trimmed away since it was proposed
		}
		t.tiered = append(t.tiered, s)
		t.tierEnd = s.End
		t.seals = slices.Delete(t.seals, 0, 1)
		changed = true
	}
	if changed {
		maps.DeleteFunc(t.collected, func(key string, _ bool) bool { return t.passed(key) })
	}
	return changed
}

func (t *Table) drop(keys []string, notBefore int64, version uint64) (changed bool) {
	for _, k := range keys {
		i := slices.IndexFunc(t.tiered, func(s Segment) bool { return s.Key == k })
		if i < 0 {
			continue
		}
		t.tiered = slices.Delete(t.tiered, i, i+1)
		t.drops = append(t.drops, drop{Drop{Key: k, NotBefore: notBefore}, version})
		changed = true
	}
	return changed
}

func (t *Table) collect(keys []string) (changed bool) {
	for _, k := range keys {
		if i := slices.IndexFunc(t.drops, func(d drop) bool { return d.Key == k }); i >= 0 {
			t.drops = slices.Delete(t.drops, i, i+1)
			changed = true
		}
		if !t.collected[k] && !t.passed(k) {
			if t.collected == nil {
				t.collected = map[string]bool{}
			}
			t.collected[k] = true
			changed = true
		}
	}
	return changed
}

// passed tells whether a key is of a segment that ends at or below the tier end, so that it cannot be committed any more.
func (t *Table) passed(key string) bool {
	parts := strings.SplitN(key[strings.LastIndexByte(key, '/')+1:], "-", 3)
	if len(parts) < 3 {
		return false
	}
	end, err := strconv.ParseUint(parts[1], 10, 64)
	return err == nil && partition.Offset(end) <= t.tierEnd
}

// CheckCommit tells which of the segments that a tierer has uploaded are to be committed: those not in the table yet. Errors: Conflict where
// they do not continue the table or a key was collected, Corrupt where they differ from their Seal, Invalid where they are malformed.
func (t *Table) CheckCommit(segments []Segment) ([]Segment, error) {
	if len(segments) == 0 || len(segments) > CommitSegmentsMax {
		return nil, fault.Errorf(fault.Invalid, "commit %d segments: from 1 to %d go at a time", len(segments), CommitSegmentsMax)
	}
	var fresh []Segment
	end, seals := t.tierEnd, t.seals
	for _, s := range segments {
		switch {
		case s.Base >= s.End || s.Key == "" || len(s.Key) > keyBytesMax:
			return nil, fault.Errorf(fault.Invalid, "commit segment [%d, %d): key of %d bytes", s.Base, s.End, len(s.Key))
		case s.End <= t.tierEnd:
			if !slices.Contains(t.tiered, s) && s.End > t.logStart {
				return nil, fault.Errorf(fault.Conflict, "commit segment [%d, %d): the bucket already has the log up to %d otherwise", s.Base, s.End, t.tierEnd)
			}
			continue // the same request again
		case s.Base != end:
			return nil, fault.Errorf(fault.Conflict, "commit segment [%d, %d): the next one begins at %d", s.Base, s.End, end)
		case len(seals) == 0 || seals[0].Base != s.Base:
			return nil, fault.Errorf(fault.Conflict, "commit segment [%d, %d): it is not sealed", s.Base, s.End)
		case seals[0].End == s.End && seals[0].Size < s.Size:
			return nil, fault.Errorf(fault.Conflict, "commit segment [%d, %d): it was compacted from %d bytes to %d", s.Base, s.End, s.Size, seals[0].Size)
		case seals[0] != Seal{Base: s.Base, End: s.End, Size: s.Size, SHA256: s.SHA256}:
			return nil, fault.Errorf(fault.Corrupt, "commit segment [%d, %d): %d bytes with digest %x, the seal says [%d, %d), %d bytes, %x",
				s.Base, s.End, s.Size, s.SHA256[:4], seals[0].Base, seals[0].End, seals[0].Size, seals[0].SHA256[:4])
		case t.collected[s.Key]:
			return nil, fault.Errorf(fault.Conflict, "commit segment [%d, %d): key %q was collected", s.Base, s.End, s.Key)
		}
		fresh = append(fresh, s)
		end, seals = s.End, seals[1:]
	}
	return fresh, nil
}

// CheckCollect tells which keys a TierCollect should name. Conflict where the table still names one.
func (t *Table) CheckCollect(keys []string) ([]string, error) {
	if len(keys) > CommitSegmentsMax {
		return nil, fault.Errorf(fault.Invalid, "collect %d keys: at most %d go at a time", len(keys), CommitSegmentsMax)
	}
	var fresh []string
	for _, k := range keys {
		switch {
		case k == "" || len(k) > keyBytesMax:
			return nil, fault.Errorf(fault.Invalid, "collect a key of %d bytes", len(k))
		case slices.ContainsFunc(t.tiered, func(s Segment) bool { return s.Key == k }):
			return nil, fault.Errorf(fault.Conflict, "collect key %q: the table names it", k)
		case t.collected[k] || t.passed(k) && !slices.ContainsFunc(t.drops, func(d drop) bool { return d.Key == k }):
			continue // again
		}
		fresh = append(fresh, k)
	}
	return fresh, nil
}

// Droppable gives the keys of tiered segments that the log start has passed, at most a record's worth.
func (t *Table) Droppable() []string {
	var keys []string
	for _, s := range t.tiered {
		if s.End > t.logStart || len(keys) == CommitSegmentsMax {
			break
		}
		keys = append(keys, s.Key)
	}
	return keys
}

// Collectable gives the dropped keys whose time has come and that no exported manifest names any more, at most n.
func (t *Table) Collectable(now int64, exportedVersion uint64, n int) []string {
	var keys []string
	for _, d := range t.drops {
		if len(keys) == n {
			break
		}
		if d.NotBefore <= now && d.version <= exportedVersion {
			keys = append(keys, d.Key)
		}
	}
	return keys
}
