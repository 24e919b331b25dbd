package wal

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// patient is a log of three segments: sealed, closed, open, with one batch damaged in one of them.
type patient struct {
	fsys    *memfs.FS
	batches [][]byte
	mark    segment.Mark
}

func newPatient(t testing.TB) *patient {
	t.Helper()
	p := &patient{fsys: newMem()}
	l, _ := mustOpen(t, p.fsys, Evidence{})
	leader := segmenttest.New(t)
	for range 3 {
		for i := range 5 {
			p.batches = append(p.batches, leader.Data(2, 3000, i == 0))
		}
	}
	mustAppend(t, l, p.batches...)
	mustSync(t, l)
	_, sum, err := l.Digest(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.MarkSealed(0, sum, []byte("state")); err != nil {
		t.Fatal(err)
	}
	p.mark = l.Mark()
	return p
}

// damage spoils bytes of a batch on the disk, and takes away the index so that it is seen.
func (p *patient) damage(t testing.TB, i, at int) {
	t.Helper()
	base := baseOf(p.batches[i/5*5])
	name := segment.Name(base, segment.LogPart)
	file := slurp(t, p.fsys, name)
	position := 0
	for _, msg := range p.batches[i/5*5 : i] {
		position += len(msg)
	}
	file[position+at] ^= 1
	place(t, p.fsys, name, file)
	_ = p.fsys.Remove(testDir + "/" + segment.Name(base, segment.IndexPart))
	if err := p.fsys.SyncAll(); err != nil {
		t.Fatal(err)
	}
}

func (p *patient) evidence(faults []segment.Range) Evidence {
	// Without a place in the last file, so that all bodies are looked at.
	return Evidence{Mark: segment.Mark{Offset: p.mark.Offset}, Faults: faults}
}

func (p *patient) check(l *Log, r Recovery) error {
	got, err := contents(l)
	if err == nil && (r.Class != segment.Clean || !bytes.Equal(bytes.Join(got, nil), bytes.Join(p.batches, nil))) {
		err = fmt.Errorf("class %s, %d batches", r.Class, len(got))
	}
	return err
}

func TestRepair(t *testing.T) {
	for i, what := range map[int]string{1: "sealed", 6: "closed", 5: "first of closed", 9: "last of closed", 12: "open", 14: "last of open"} {
		for _, at := range []int{40, 700} { // header, body
			t.Run(fmt.Sprintf("%s-%d", what, at), func(t *testing.T) {
				p := newPatient(t)
				p.damage(t, i, at)
				l, r := mustOpen(t, p.fsys, p.evidence(nil))
				if r.Class != segment.Corrupt || len(r.Faults) != 1 || r.Faults[0].From != baseOf(p.batches[i]) || r.End != baseOf(p.batches[14])+2 {
					t.Fatalf("damage is seen as %+v", r)
				}
				other := bytes.Clone(p.batches[i])
				other[len(other)-1] ^= 1
				wantKind(t, "repair with damage", l.Repair([][]byte{other}), fault.Invalid)
				wantKind(t, "repair with another batch", l.Repair([][]byte{p.batches[(i+1)%15]}), fault.Invalid)
				wantKind(t, "repair with nothing", l.Repair(nil), fault.Invalid)
				if err := l.Repair(p.batches[i : i+1]); err != nil {
					t.Fatal(err)
				}
				if faults := l.Faults(); len(faults) != 0 {
					t.Errorf("faults are %+v", faults)
				}
				if err := p.check(l, Recovery{}); err != nil {
					t.Error(err)
				}
				// It is durable, and the log goes on.
				again, r := mustOpen(t, p.fsys.CrashNone(), Evidence{Mark: p.mark})
				if err := p.check(again, r); err != nil {
					t.Errorf("after a crash: %v", err)
				}
				leader := segmenttest.New(t)
				follow(leader, l.Tail())
				mustAppend(t, l, leader.Data(1, 10, false))
				mustSync(t, l)
			})
		}
	}
}

// A crash at any operation of a repair leaves the damage as it was or repaired.
func TestCrashInRepair(t *testing.T) {
	for _, i := range []int{1, 6, 12} {
		p := newPatient(t)
		p.damage(t, i, 700)
		faulty := newFaulty(p.fsys)
		l, r := mustOpen(t, faulty, p.evidence(nil))
		known := r.Faults
		faulty.Observe(func(c faultfs.Call) {
			for _, crashed := range survivors(p.fsys, uint64(c.Number), 20) {
				again, r, err := Open(t.Context(), Config{FS: crashed, Dir: testDir, Tag: testTag}, p.evidence(known))
				if err != nil {
					t.Fatalf("crash before %+v: %v", c, err)
				}
				if r.Class == segment.Clean {
					err = p.check(again, r)
				} else if len(r.Faults) != 1 || r.Faults[0] != known[0] || r.End != l.End() {
					err = fmt.Errorf("%+v", r)
				}
				if err != nil {
					t.Fatalf("batch %d, crash before %+v: %v", i, c, err)
				}
				again.files.Close()
			}
		})
		if err := l.Repair(p.batches[i : i+1]); err != nil {
			t.Fatal(err)
		}
		faulty.Observe(nil)
	}
}

// A lost end whose place a mark tells is no obstacle: the log goes on behind it, and it can be repaired later.
func TestAppendBehindALostEnd(t *testing.T) {
	for _, lost := range []string{"cut", "rotten"} {
		t.Run(lost, func(t *testing.T) {
			p := newPatient(t)
			name := segment.Name(baseOf(p.batches[10]), segment.LogPart)
			file := slurp(t, p.fsys, name)
			whole := file
			if file = slices.Clone(file[:len(p.batches[10])+100]); lost == "rotten" {
				file = append(file, make([]byte, len(whole)-len(file))...)
			}
			place(t, p.fsys, name, file)
			l, r := mustOpen(t, p.fsys, Evidence{Mark: p.mark})
			if r.Class != segment.Corrupt || r.End != p.mark.Offset || len(r.Faults) != 1 {
				t.Fatalf("%+v", r)
			}
			leader := segmenttest.New(t)
			follow(leader, l.Tail())
			mustAppend(t, l, leader.Data(1, 10, false))
			mustSync(t, l)
			known := r.Faults
			for life := range 2 {
				again, r := mustOpen(t, p.fsys.CrashNone(), Evidence{Mark: l.Mark(), Faults: known})
				if len(r.Faults) != 1 || r.Faults[0] != known[0] || r.End != leader.End {
					t.Fatalf("life %d: %+v", life, r)
				}
				c, err := again.Read(p.mark.Offset, r.End, 1<<20)
				if err != nil || c.NextOffset != leader.End {
					t.Fatalf("life %d: read behind the lost end: %v", life, err)
				}
				c.Close()
				_, err = again.Read(known[0].From, r.End, 1<<20)
				wantKind(t, "read of the lost end", err, fault.Corrupt)
			}
			if err := l.Repair(p.batches[11:]); err != nil {
				t.Fatal(err)
			}
			if _, r := mustOpen(t, p.fsys.CrashNone(), Evidence{Mark: l.Mark(), Faults: known}); r.Class != segment.Clean || r.End != leader.End {
				t.Errorf("after the repair: %+v", r)
			}
		})
	}
}

// A damaged end can be repaired too: then the log goes on where it ended.
func TestRepairOfALostEnd(t *testing.T) {
	p := newPatient(t)
	name := segment.Name(baseOf(p.batches[10]), segment.LogPart)
	file := slurp(t, p.fsys, name)
	place(t, p.fsys, name, file[:len(p.batches[10])+100])
	l, r := mustOpen(t, p.fsys, Evidence{HW: p.mark.Offset})
	if r.Class != segment.Corrupt || r.End != p.mark.Offset {
		t.Fatalf("%+v", r)
	}
	leader := segmenttest.New(t)
	follow(leader, l.Tail())
	wantKind(t, "append behind a lost end", l.Append([][]byte{leader.Data(1, 10, true)}), fault.Corrupt)
	wantKind(t, "repair in part", l.Repair(p.batches[11:13]), fault.Invalid)
	if err := l.Repair(p.batches[11:]); err != nil {
		t.Fatal(err)
	}
	if err := p.check(l, Recovery{}); err != nil {
		t.Error(err)
	}
	if l.Tail().Chain != p.mark.Chain {
		t.Error("the chain of the end is not known")
	}
	follow(leader, l.Tail())
	mustAppend(t, l, leader.Data(1, 10, false))
	mustSync(t, l)
	if _, r := mustOpen(t, p.fsys.CrashNone(), Evidence{Mark: l.Mark()}); r.Class != segment.Clean || r.End != leader.End {
		t.Errorf("%+v", r)
	}
}
