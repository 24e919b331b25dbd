package segment_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/proto/batch"
)

func emptyIndex() *segment.Index {
	return &segment.Index{Summary: segment.Summary{Tag: segmenttest.Tag}}
}

// scene is a segment from offset 0, and where its batches begin.
type scene struct {
	log       []byte
	positions []int64
	offsets   []partition.Offset // by batch, and the end
	leader    *segmenttest.Leader
}

// newScene makes n batches of about size bytes. hints gives each one's commitHint as the offset of an earlier batch; nil: no hints.
func newScene(t testing.TB, n, size int, hint func(i int) int) *scene {
	s := &scene{leader: segmenttest.New(t)}
	for i := range n {
		s.positions = append(s.positions, int64(len(s.log)))
		s.offsets = append(s.offsets, s.leader.End)
		if hint != nil {
			s.leader.HW = s.offsets[hint(i)]
		}
		s.log = append(s.log, s.leader.Data(1, size, i == 0)...)
	}
	s.positions = append(s.positions, int64(len(s.log)))
	s.offsets = append(s.offsets, s.leader.End)
	return s
}

// spoil damages the header or the body of a batch.
func (s *scene) spoil(i int, body bool) *scene {
	at := s.positions[i] + 60
	if body {
		at = s.positions[i] + batch.HeaderBytes + 50
	}
	s.log[at] ^= 0x10
	return s
}

func (s *scene) assess(ev segment.Evidence) *segment.Assessment {
	return segment.Assess(bytes.NewReader(s.log), int64(len(s.log)), emptyIndex(), false, ev)
}

func TestClasses(t *testing.T) {
	none := func(int) int { return 0 }
	behind := func(i int) int { return max(0, i-3) } // everything but the last three is committed
	type want struct {
		class  segment.Class
		end    int // batch where the log ends
		faults []int
		// unchained: the end cannot be continued
		unchained bool
	}
	for _, test := range []struct {
		name  string
		scene *scene
		ev    segment.Evidence
		want  want
	}{
		{"whole", newScene(t, 9, 500, none), segment.Evidence{}, want{end: 9}},
		{"bad header, nothing proven", newScene(t, 9, 500, none).spoil(4, false), segment.Evidence{}, want{class: segment.Torn, end: 4}},
		{"bad body, nothing proven", newScene(t, 9, 500, none).spoil(4, true), segment.Evidence{}, want{class: segment.Torn, end: 4}},
		{"bad first batch, nothing proven", newScene(t, 9, 500, none).spoil(0, false), segment.Evidence{}, want{class: segment.Torn, end: 0}},
		{"proven by a hint behind", newScene(t, 9, 500, behind).spoil(4, true), segment.Evidence{}, want{segment.Corrupt, 9, []int{4}, false}},
		{"header, proven by a hint behind", newScene(t, 9, 500, behind).spoil(4, false), segment.Evidence{}, want{segment.Corrupt, 9, []int{4}, false}},
		{"the first one not proven by a hint", newScene(t, 9, 500, behind).spoil(5, true), segment.Evidence{}, want{class: segment.Torn, end: 5}},
		{"proven by the mark", newScene(t, 9, 500, none).spoil(4, false), segment.Evidence{Synced: 5}, want{segment.Corrupt, 9, []int{4}, false}},
		{"at the mark", newScene(t, 9, 500, none).spoil(4, false), segment.Evidence{Synced: 4}, want{class: segment.Torn, end: 4}},
		{"proven by the high watermark", newScene(t, 9, 500, none).spoil(4, false), segment.Evidence{Committed: 5}, want{segment.Corrupt, 9, []int{4}, false}},
		{"the last one, proven", newScene(t, 9, 500, none).spoil(8, false), segment.Evidence{Synced: 9}, want{segment.Corrupt, 9, []int{8}, true}},
		{"the last one's body, proven", newScene(t, 9, 500, none).spoil(8, true), segment.Evidence{Synced: 9}, want{segment.Corrupt, 9, []int{8}, false}},
		{"two proven", newScene(t, 9, 500, none).spoil(2, true).spoil(6, false), segment.Evidence{Synced: 9}, want{segment.Corrupt, 9, []int{2, 6}, false}},
		{"two neighbours proven", newScene(t, 9, 500, none).spoil(2, false).spoil(3, false), segment.Evidence{Synced: 9}, want{segment.Corrupt, 9, []int{2, 3}, false}},
		{"one proven, one not", newScene(t, 9, 500, none).spoil(2, false).spoil(6, false), segment.Evidence{Synced: 4}, want{segment.Corrupt, 6, []int{2}, false}},
		{"bytes missing", newScene(t, 5, 500, none), segment.Evidence{Synced: 7}, want{segment.Corrupt, 7, []int{5, 6}, true}},
		{"perhaps bytes missing", newScene(t, 5, 500, none), segment.Evidence{Committed: 7}, want{class: segment.Suspect, end: 5}},
		{"more than the window", newScene(t, 40, 1<<19, none).spoil(1, false), segment.Evidence{}, want{class: segment.Suspect, end: 1}},
		{"more than the window, near the mark", newScene(t, 40, 1<<19, none).spoil(30, false), segment.Evidence{Synced: 29}, want{class: segment.Torn, end: 30}},
		{"more than the window, near a hint", newScene(t, 40, 1<<19, behind).spoil(38, false), segment.Evidence{}, want{class: segment.Torn, end: 38}},
		{"more than the window, recycled", newScene(t, 40, 1<<19, none).spoil(1, false), segment.Evidence{Recycled: true}, want{class: segment.Suspect, end: 1}},
		{"bodies below the mark are not read", newScene(t, 9, 500, none).spoil(3, true), segment.Evidence{Synced: 5, CheckFrom: 3000}, want{end: 9}},
	} {
		a := test.scene.assess(test.ev)
		var faults []int
		for _, r := range a.Faults {
			for o := r.From; o < r.To; o++ {
				faults = append(faults, int(o)) // one record a batch
			}
		}
		if a.Class != test.want.class || int(a.End.Offset) != test.want.end || a.End.Unchained != test.want.unchained ||
			!equal(faults, test.want.faults) || a.Index.End != a.End.Offset || a.Index.Size != a.End.Position {
			t.Errorf("%s: %s, end %+v, faults %v (%v); want %+v", test.name, a.Class, a.End, a.Faults, a.Err, test.want)
		}
		if (a.Class == segment.Torn || a.Class == segment.Suspect && a.Err != nil) != (a.Cut.Limit > a.Cut.Position && len(a.Faults) == 0) {
			t.Errorf("%s: %s cuts %+v", test.name, a.Class, a.Cut)
		}
		if a.Class != segment.Clean && a.Err != nil && !errors.Is(a.Err, segment.ErrFrame) {
			t.Errorf("%s: error is %v", test.name, a.Err)
		}
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Bytes of another life behind the end are not this segment's: neither evidence nor records.
func TestBytesOfOtherSegmentsAreNothing(t *testing.T) {
	s := newScene(t, 4, 500, nil)
	end := len(s.log)
	other := segmenttest.New(t)
	other.Base, other.End, other.HW = 1000, 5000, 4000
	for range 40 {
		s.log = append(s.log, other.Data(1, 1000, false)...)
	}
	a := s.assess(segment.Evidence{Recycled: true})
	if a.Class != segment.Clean || a.End.Position != int64(end) || a.Cut != (segment.Range{}) {
		t.Errorf("frames of another segment behind the end: %s, end %+v, cut %+v", a.Class, a.End, a.Cut)
	}
	s.log = append(s.log[:end], make([]byte, 100_000)...)
	if a := s.assess(segment.Evidence{Recycled: true}); a.Class != segment.Clean || a.End.Position != int64(end) {
		t.Errorf("zeros behind the end: %s, end %+v", a.Class, a.End)
	}
	// Zeros are no end either: what lies behind them counts.
	p := s.leader
	p.HW = p.End
	p.Data(1, 100, false) // lost
	s.log = append(s.log, p.Data(1, 100, false)...)
	if a := s.assess(segment.Evidence{Recycled: true}); a.Class != segment.Torn || a.End.Position != int64(end) || a.Cut.To != p.End {
		t.Errorf("a batch behind zeros: %s, end %+v, cut %+v", a.Class, a.End, a.Cut)
	}
	p.HW = p.End - 1
	s.log = append(s.log, p.Data(1, 100, false)...)
	if a := s.assess(segment.Evidence{Recycled: true}); a.Class != segment.Corrupt || a.End.Offset != p.End || len(a.Faults) != 1 {
		t.Errorf("a batch behind zeros that proves them wrong: %s, end %+v, faults %+v", a.Class, a.End, a.Faults)
	}
}

// A batch at the right place, whole, with the right offset, is still not the next one if it comes from another history or partition.
func TestTheNextBatchIsTheOneThatContinues(t *testing.T) {
	for name, spoil := range map[string]func(p *segmenttest.Leader, msg []byte){
		"chain": func(p *segmenttest.Leader, msg []byte) { p.Chain++; p.Stamp(msg, false) },
		"tag": func(p *segmenttest.Leader, msg []byte) {
			batch.Stamp(msg, batch.Stamps{BaseOffset: uint64(p.End), Epoch: 1, AppendTime: p.AppendTime, Chain: p.Chain, PartitionTag: segmenttest.Tag + 1})
		},
		"segment": func(p *segmenttest.Leader, msg []byte) { p.Base++; p.Stamp(msg, false) },
		"offset":  func(p *segmenttest.Leader, msg []byte) { p.End++; p.Stamp(msg, false) },
	} {
		s := newScene(t, 3, 100, nil)
		other := *s.leader
		msg := s.leader.Data(1, 100, false)
		whole := append(bytes.Clone(s.log), msg...)
		spoil(&other, msg)
		s.log = append(s.log, msg...)
		if a := s.assess(segment.Evidence{}); a.Class != segment.Torn || a.End.Offset != 3 {
			t.Errorf("another %s: %s, end %+v", name, a.Class, a.End)
		}
		s.log = whole
		if a := s.assess(segment.Evidence{}); a.Class != segment.Clean || a.End.Offset != 4 {
			t.Errorf("the right one: %s, end %+v", a.Class, a.End)
		}
	}
}

// What a producer puts into a record is not taken for batches of the log, not even where the record's batch is damaged.
func TestBatchesInsideRecordsProveNothing(t *testing.T) {
	s := newScene(t, 3, 500, nil)
	forged := *s.leader
	forged.End, forged.HW = 50, 49
	inner := forged.Data(1, 100, false)
	var builder batch.Builder
	value := make([]byte, 4096)
	for at := range 8 { // whatever place the value gets, one of them is at a multiple of 8
		copy(value[400*at+at:], inner)
	}
	if err := builder.Add(batch.Record{Value: value}); err != nil {
		t.Fatal(err)
	}
	msg, err := builder.Build(nil, batch.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.positions[3] = int64(len(s.log))
	s.log = append(s.log, s.leader.Stamp(msg, false)...)
	s.log[len(s.log)-1] ^= 1 // the last byte of the body
	if a := s.assess(segment.Evidence{}); a.Class != segment.Torn || a.End.Offset != 3 || a.Cut.To != 3 {
		t.Errorf("%s, end %+v, cut %+v, faults %+v", a.Class, a.End, a.Cut, a.Faults)
	}
}

func FuzzAssess(f *testing.F) {
	s := newScene(f, 6, 90, func(i int) int { return max(0, i-2) })
	f.Add(s.log, uint64(0), uint64(0))
	f.Add(s.log[:len(s.log)-20], uint64(3), uint64(4))
	f.Add(s.spoil(2, true).log, uint64(6), uint64(2))
	f.Fuzz(func(t *testing.T, p []byte, synced, committed uint64) {
		ev := segment.Evidence{Synced: partition.Offset(synced % 100), Committed: partition.Offset(committed % 100)}
		a := segment.Assess(bytes.NewReader(p), int64(len(p)), emptyIndex(), false, ev)
		if a.End.Offset < ev.Synced || a.End.Position > int64(len(p)) {
			t.Errorf("end is %+v", a.End)
		}
		if (a.Class == segment.Corrupt) != (len(a.Faults) > 0) {
			t.Errorf("%s with faults %+v", a.Class, a.Faults)
		}
		again := segment.Assess(bytes.NewReader(p), int64(len(p)), emptyIndex(), false, ev)
		if again.Class != a.Class || again.End != a.End {
			t.Errorf("assessed again: %+v, then %+v", a, again)
		}
		if a.Class == segment.Torn {
			// What a cut leaves is clean, and the same.
			cut := segment.Assess(bytes.NewReader(p), a.End.Position, emptyIndex(), false, ev)
			if cut.End != a.End || cut.Class != segment.Clean && cut.Class != segment.Suspect {
				t.Errorf("after the cut: %s, end %+v, was %+v", cut.Class, cut.End, a.End)
			}
		}
	})
}
