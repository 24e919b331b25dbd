package history

import (
	"strings"
	"testing"
)

// run is a short life of a topic: records 1.0 to 1.3 and 2.0 and 2.1 in partition 0; 1.2's outcome is unknown, 2.1 failed.
type run struct {
	h   *History
	log []ID // by offset
}

func newRun() *run {
	r := &run{h: New()}
	for i, id := range []ID{{1, 0}, {1, 1}, {2, 0}} {
		r.h.Invoke(id.Session, 0)
		r.h.OK(id, int64(i))
		r.log = append(r.log, id)
	}
	r.h.Unknown(r.h.Invoke(1, 0))
	r.h.Fail(r.h.Invoke(2, 0))
	r.log = append(r.log, ID{1, 2})
	r.h.OK(r.h.Invoke(1, 0), 4)
	r.log = append(r.log, ID{1, 3})
	return r
}

func (r *run) read(log ...ID) *Reading {
	reading := r.h.Begin()
	for offset, id := range log {
		if id != gap {
			reading.Observe(0, int64(offset), Value(id, 100))
		}
	}
	return reading
}

var gap = ID{-1, -1} //nolint:gochecknoglobals // constant

func want(t *testing.T, got []Anomaly, kind Kind, text string) {
	t.Helper()
	if kind == "" {
		if len(got) > 0 {
			t.Errorf("found %v", got)
		}
		return
	}
	if len(got) != 1 || got[0].Kind != kind || !strings.Contains(got[0].Text, text) {
		t.Errorf("found %v, want one %s with %q", got, kind, text)
	}
}

// TestPlanted plants an anomaly of each kind into a reading.
func TestPlanted(t *testing.T) {
	a, b, c, u, d := ID{1, 0}, ID{1, 1}, ID{2, 0}, ID{1, 2}, ID{1, 3}
	for _, test := range []struct {
		name string
		log  []ID
		kind Kind
		text string
	}{
		{"as it was", []ID{a, b, c, u, d}, "", ""},
		{"unknown is not there", []ID{a, b, c, gap, d}, "", ""},
		{"acked is lost", []ID{a, gap, c, u, d}, Lost, "acknowledged"},
		{"the end is old", []ID{a, b, c, u}, Stale, "acknowledged"},

		{"twice", []ID{a, b, c, u, d, a}, Duplicate, "also at offset 0"},
		{"unknown is there twice", []ID{a, b, c, u, d, u}, Duplicate, "also at offset 3"},
		{"moved", []ID{a, b, c, u, gap, d}, Misplaced, "acknowledged at offset 4"},
		{"failed is there", []ID{a, b, c, u, d, {2, 1}}, Aborted, "failed"},
		{"invented", []ID{a, b, c, u, d, {7, 7}}, Aborted, "nobody"},
	} {
		t.Run(test.name, func(t *testing.T) { want(t, newRun().read(test.log...).Complete(), test.kind, test.text) })
	}
}

func TestWrongBytes(t *testing.T) {
	for name, spoil := range map[string]func(value []byte) []byte{
		"flipped": func(v []byte) []byte { v[len(v)-1] ^= 1; return v },
		"cut":     func(v []byte) []byte { return v[:len(v)-1] },
		"longer":  func(v []byte) []byte { return append(v, 0) },
		"zeroed":  func(v []byte) []byte { clear(v); return v },
		"empty":   func([]byte) []byte { return nil },
		"mixed":   func(v []byte) []byte { copy(v[50:], Value(ID{1, 0}, 100)[50:]); return v },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun()
			reading := r.read(r.log...)
			reading.Observe(0, 5, spoil(Value(ID{3, 0}, 100)))
			want(t, reading.Complete(), Wrong, "parse value")
		})
	}
}

// TestOrder has acks without offsets, so that only the order can be wrong.
func TestOrder(t *testing.T) {
	h := New()
	first, second := h.Invoke(1, 0), h.Invoke(1, 0) // of one session, both on their way
	h.OK(second, -1)
	h.OK(first, -1)
	other := h.Invoke(2, 0)
	h.OK(other, -1)
	later := h.Invoke(3, 0)
	h.Unknown(later)
	for name, test := range map[string]struct {
		log  []ID
		text string
	}{
		"right":                  {[]ID{first, second, other, later}, ""},
		"session":                {[]ID{second, first, other, later}, "same session"},
		"between sessions":       {[]ID{first, other, second, later}, "answered before"},
		"unknown before its own": {[]ID{first, second, later, other}, "answered before"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := Reordered
			if test.text == "" {
				kind = ""
			}
			r := run{h: h}
			h.mu.seen, h.mu.at = map[ID]place{}, map[place]ID{}
			want(t, r.read(test.log...).Complete(), kind, test.text)
		})
	}
}

func TestOrderOfReading(t *testing.T) {
	r := newRun()
	reading := r.h.Begin()
	for _, offset := range []int{0, 2, 1, 3, 4} {
		reading.Observe(0, int64(offset), Value(r.log[offset], 100))
	}
	want(t, reading.Complete(), Reordered, "read behind offset 2")
}

// TestReadings has two readings that do not agree about the record of which the outcome is unknown.
func TestReadings(t *testing.T) {
	r := newRun()
	want(t, r.read(r.log...).Complete(), "", "")
	log := append([]ID(nil), r.log...)
	log[3] = gap
	want(t, r.read(log...).Complete(), Lost, "earlier reading")
	r = newRun()
	other := r.h.Invoke(4, 0)
	want(t, r.read(append(r.log, other)...).Complete(), "", "")
	want(t, r.read(append(append(r.log, gap), other)...).Complete(), Misplaced, "earlier reading had it at offset 5")
}

func TestPartition(t *testing.T) {
	r := newRun()
	id := r.h.Invoke(1, 1)
	r.h.OK(id, 5)
	want(t, r.read(append(r.log, id)...).Complete(), Misplaced, "partition 1")
}

func TestFollower(t *testing.T) {
	r := newRun()
	all := r.read(r.log...)
	want(t, all.Complete(), "", "")
	want(t, r.read(r.log[:3]...).Follows(all), "", "") // not at the end yet
	log := append([]ID(nil), r.log...)
	log[3] = gap
	want(t, r.read(log...).Follows(all), Lost, "went past")
}

func TestTrimmed(t *testing.T) {
	r := newRun()
	r.h.Trimmed(0, 2)
	want(t, r.read(gap, gap, r.log[2], r.log[3], r.log[4]).Complete(), "", "")
	want(t, r.read(gap, gap, gap, r.log[3], r.log[4]).Complete(), Lost, "acknowledged")
}

// TestStillOnItsWay: what has no answer when a reading begins need not be in it.
func TestStillOnItsWay(t *testing.T) {
	r := newRun()
	id := r.h.Invoke(1, 0)
	reading := r.read(r.log...)
	r.h.OK(id, 5)
	want(t, reading.Complete(), "", "")
	want(t, r.read(r.log...).Complete(), Stale, "acknowledged")
}

// TestExchanged: two records change their places.
func TestExchanged(t *testing.T) {
	r := newRun()
	got := r.read(r.log[1], r.log[0], r.log[2], r.log[3], r.log[4]).Complete()
	if len(got) < 2 || got[0].Kind != Misplaced || got[1].Kind != Misplaced {
		t.Errorf("found %v", got)
	}
}

// TestFollowerGoesBack: a reader is given again what it had.
func TestFollowerGoesBack(t *testing.T) {
	r := newRun()
	all := r.read(r.log...)
	want(t, all.Complete(), "", "")
	reading := r.h.Begin()
	for _, offset := range []int{0, 1, 0, 2, 3, 4} {
		reading.Observe(0, int64(offset), Value(r.log[offset], 100))
	}
	got := reading.Follows(all)
	if len(got) == 0 || got[0].Kind != Duplicate && got[0].Kind != Reordered {
		t.Errorf("found %v", got)
	}
}
