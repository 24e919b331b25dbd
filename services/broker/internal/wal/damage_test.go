package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/proto/batch"
)

// victim is a log of about 64 KiB in one open file, as kill -9 leaves it, and what is known of it.
type victim struct {
	file    []byte
	name    string
	batches []victimBatch
	mark    segment.Mark
	end     partition.Offset
}

type victimBatch struct {
	header   batch.Header
	position int64
}

func (b *victimBatch) end() int64 { return b.position + int64(b.header.Size) }

func newVictim(t testing.TB) *victim {
	t.Helper()
	fsys := newMem()
	l, _ := mustOpen(t, fsys, Evidence{})
	p := segmenttest.New(t)
	v := &victim{name: segment.Name(0, segment.LogPart)}
	var ends []partition.Offset
	for len(v.file) < 64<<10 {
		i := len(ends)
		if i >= 4 {
			p.HW = ends[i-4] // the high watermark is some batches behind
		}
		var msg []byte
		if i%9 == 8 {
			msg = p.Control(false)
		} else {
			msg = p.Data(1+i%7, 100+i*37%900, i == 0)
		}
		mustAppend(t, l, msg)
		mustSync(t, l)
		h, err := batch.ParseHeader(msg)
		if err != nil {
			t.Fatal(err)
		}
		v.batches = append(v.batches, victimBatch{h, int64(len(v.file))})
		v.file = append(v.file, msg...)
		ends = append(ends, p.End)
		if len(v.file) < 32<<10 {
			v.mark = l.Mark()
		}
	}
	v.end = p.End
	if got := slurp(t, fsys, v.name); !bytes.Equal(got, v.file) {
		t.Fatalf("the file has %d bytes, want %d", len(got), len(v.file))
	}
	return v
}

// at gives the batch that a byte of the file belongs to.
func (v *victim) at(position int64) int {
	for i := range v.batches {
		if position < v.batches[i].end() {
			return i
		}
	}
	return len(v.batches)
}

// proven is D when the headers of all batches but those in [from, to) can be read.
func (v *victim) proven(from, to int) partition.Offset {
	d := v.mark.Offset
	for i := range v.batches {
		if i < from || i >= to {
			d = max(d, partition.Offset(v.batches[i].header.CommitHint))
		}
	}
	return d
}

// open recovers a damaged file, twice, and checks what holds for any damage: nothing wrong is accepted, nothing proven is cut, and the second
// time finds what the first has left.
func (v *victim) open(t testing.TB, damaged []byte) (Recovery, error) {
	t.Helper()
	fsys := newMem()
	place(t, fsys, v.name, damaged)
	var first Recovery
	for again := range 2 {
		l, r, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag}, Evidence{Mark: v.mark})
		if err != nil {
			return r, err
		}
		if again == 0 {
			first = r
		} else if r.End != first.End || r.Chain != first.Chain || len(r.Faults) != len(first.Faults) {
			return r, fmt.Errorf("second open: %+v, the first %+v", r, first)
		}
		if r.End < v.mark.Offset {
			return r, fmt.Errorf("end %d is below the mark", r.End)
		}
		if err := v.compare(l); err != nil {
			return r, err
		}
		l.files.Close()
	}
	return first, nil
}

// compare reads every batch that can be read: it must be the one that was written.
func (v *victim) compare(l *Log) error {
	for i := range v.batches {
		b := &v.batches[i]
		o := partition.Offset(b.header.BaseOffset)
		if o >= l.End() {
			continue
		}
		got, err := readAll(l, o, partition.Offset(b.header.NextOffset()), 1)
		if err != nil {
			if !fault.Is(err, fault.Corrupt) {
				return fmt.Errorf("read batch %d: %w", i, err)
			}
			continue
		}
		if !bytes.Equal(got, v.file[b.position:b.end()]) && batch.CheckBody(got) == nil {
			return fmt.Errorf("batch %d is another one", i)
		}
	}
	// The same through Scan, which checks bodies: it ends at the first damage and not before.
	err := l.Scan(l.Start(), func(h batch.Header, msg []byte) error {
		if b := &v.batches[v.at(v.positionOf(h))]; !bytes.Equal(msg, v.file[b.position:b.end()]) {
			return fmt.Errorf("batch at %d is another one", h.BaseOffset)
		}
		return nil
	})
	if err != nil && !fault.Is(err, fault.Corrupt) {
		return err
	}
	return nil
}

func (v *victim) positionOf(h batch.Header) int64 {
	for i := range v.batches {
		if v.batches[i].header.BaseOffset == h.BaseOffset {
			return v.batches[i].position
		}
	}
	return 0
}

// classify checks the class for damage within one batch.
func (v *victim) classify(r Recovery, at int64) error {
	i := v.at(at)
	b := &v.batches[i]
	o := partition.Offset(b.header.BaseOffset)
	inBody := at >= b.position+batch.HeaderBytes
	switch {
	case b.end() <= v.mark.Position && inBody:
		if r.Class != segment.Clean || r.End != v.end {
			return fmt.Errorf("body below the mark: %s, end %d", r.Class, r.End) // a scrubber's work: Scan has seen it
		}
	case o < v.proven(i, i+1):
		want := segment.Range{
			From: o, To: partition.Offset(b.header.NextOffset()), Base: 0, Position: b.position, Limit: b.end(),
		}
		if r.Class != segment.Corrupt || r.End != v.end || len(r.Faults) != 1 || r.Faults[0] != want {
			return fmt.Errorf("proven batch %d [%d, %d): %s, end %d, faults %+v", i, want.From, want.To, r.Class, r.End, r.Faults)
		}
	default:
		if r.Class != segment.Torn || r.End != o || len(r.Faults) != 0 {
			return fmt.Errorf("unproven batch %d at %d: %s, end %d, faults %+v", i, o, r.Class, r.End, r.Faults)
		}
	}
	return nil
}

func TestEveryFlippedBitIsFoundAndClassified(t *testing.T) {
	v := newVictim(t)
	damaged := bytes.Clone(v.file)
	for bit := 0; bit < 8*len(damaged); bit += sample().bits {
		damaged[bit/8] ^= 1 << (bit % 8)
		r, err := v.open(t, damaged)
		if err == nil {
			err = v.classify(r, int64(bit/8))
		}
		if err != nil {
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
		damaged[bit/8] ^= 1 << (bit % 8)
	}
}

func TestEveryCutIsFoundAndClassified(t *testing.T) {
	v := newVictim(t)
	for n := 0; n < len(v.file); n += sample().bytes {
		r, err := v.open(t, v.file[:n:n])
		if err != nil {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		i := v.at(int64(n))
		last := partition.Offset(v.batches[i].header.BaseOffset)
		whole := v.batches[i].position == int64(n)
		switch {
		case last < v.proven(i, len(v.batches)):
			if r.Class != segment.Corrupt || r.End != v.proven(i, len(v.batches)) || len(r.Faults) != 1 || r.Faults[0].From != last {
				t.Fatalf("cut at byte %d, below the mark: %s, end %d, faults %+v", n, r.Class, r.End, r.Faults)
			}
		case pool.IsRecycled(int64(n)) && r.Class == segment.Clean && r.End == last: // what lies behind may be of an earlier life
		case whole != (r.Class == segment.Clean) || !whole != (r.Class == segment.Torn) || r.End != last:
			t.Fatalf("cut at byte %d: %s, end %d, want %d", n, r.Class, r.End, last)
		}
	}
}

// Sectors lost, pages swapped, pages of an earlier time: more than one batch may be hit.
func TestEveryLostPageIsFound(t *testing.T) {
	v := newVictim(t)
	hit := func(what string, from, to int, damage func(p []byte)) {
		damaged := bytes.Clone(v.file)
		damage(damaged)
		r, err := v.open(t, damaged)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		first, last := v.at(int64(from)), v.at(int64(to-1))
		o := partition.Offset(v.batches[first].header.BaseOffset)
		switch {
		case bytes.Equal(damaged, v.file):
		case r.Class == segment.Corrupt && o < v.proven(first, first+1): // some header was left whole, or only moved
		case o >= v.proven(first, last+1):
			if r.Class != segment.Torn || r.End != o {
				t.Fatalf("%s, nothing proven: %s, end %d", what, r.Class, r.End)
			}
		case r.Class != segment.Corrupt && (r.Class != segment.Clean || v.batches[first].position >= v.mark.Position):
			t.Fatalf("%s, proven: %s, end %d, faults %+v", what, r.Class, r.End, r.Faults)
		case r.End < v.proven(first, last+1):
			t.Fatalf("%s: end %d is below %d", what, r.End, v.proven(first, last+1))
		}
	}
	for at := 0; at+512 <= len(v.file); at += 512 {
		hit(fmt.Sprintf("sector at %d zero", at), at, at+512, func(p []byte) { clear(p[at : at+512]) })
	}
	for at := 0; at+8192 <= len(v.file); at += 4096 {
		hit(fmt.Sprintf("pages at %d swapped", at), at, at+8192, func(p []byte) {
			copy(p[at:at+4096], v.file[at+4096:])
			copy(p[at+4096:at+8192], v.file[at:])
		})
		hit(fmt.Sprintf("page at %d is the one before", at+4096), at+4096, at+8192, func(p []byte) {
			copy(p[at+4096:at+8192], v.file[at:])
		})
	}
}

// What cannot be read is damage: where it is proven, it is kept and told; where it is not, the log is not opened, since nobody knows what was there.
func TestUnreadableBytes(t *testing.T) {
	v := newVictim(t)
	for _, test := range []struct {
		at   int64
		want segment.Class
		shut bool
	}{{1000, segment.Corrupt, false}, {v.mark.Position + 3000, segment.Corrupt, false}, {v.batches[len(v.batches)-2].position, 0, true}} {
		inner := newMem()
		place(t, inner, v.name, v.file)
		bad := &badSector{FS: inner, at: test.at &^ 511}
		l, r, err := Open(t.Context(), Config{FS: bad, Dir: testDir, Tag: testTag}, Evidence{Mark: v.mark})
		if test.shut {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("unreadable at %d: %v, want that it is tried again", test.at, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Class != test.want {
			t.Errorf("unreadable at %d: %s, want %s (%+v)", test.at, r.Class, test.want, r)
		}
		if err := v.compare(l); err != nil && !errors.Is(err, errBadSector) {
			t.Error(err)
		}
		l.files.Close()
	}
}
