package disk

import "github.com/seedqueue/sq/libs/vfs"

// State says what a disk takes.
type State uint8

// The states, from good to bad.
const (
	OK             State = iota
	RefusesRecords       // no publish
	RefusesAppends       // nothing but what makes room, and what is small and must be
	Poisoned             // nothing; the broker ends
)

// String gives the state in words, as in the metrics and logs.
func (s State) String() string {
	return [...]string{"ok", "refuses records", "refuses appends", "poisoned"}[s&3]
}

// Marks are the free bytes below which a state begins, and the size of the ballast.
type Marks struct {
	Records uint64
	Appends uint64
	Ballast uint64
}

// MarksOf gives the marks of a volume. refuse is the first mark that a user wants, 0 = the default; the second one is then half of it. A mark
// is never more than half of the volume.
func MarksOf(total, refuse uint64) Marks {
	m := Marks{
		Records: min(total/recordsDivisor, recordsMost),
		Appends: min(total/appendsDivisor, appendsMost),
		Ballast: min(total/ballastDivisor, ballastMost) / ballastUnit * ballastUnit,
	}
	if refuse > 0 {
		m.Records = min(refuse, total/2)
		m.Appends = m.Records / 2
	}
	return m
}

// seen is what is known when a state is decided.
type seen struct {
	usage   vfs.Usage
	marks   Marks
	now     State // before
	ballast bool  // there is one
	full    bool  // something found no room since the last look
}

// act is what is to be done to the ballast.
type act uint8

const (
	leave act = iota
	release
	remake
)

// decide gives the state that follows, and what to do. It is the whole rule (doc.go 1 to 3).
func decide(s seen) (State, act) {
	if s.now == Poisoned || s.usage.Total == 0 {
		return s.now, leave
	}
	above := func(mark uint64, state State) bool {
		if s.now >= state {
			mark += mark / 8 // some play
		}
		return s.usage.Free >= mark
	}
	free := s.usage.Free
	switch {
	case s.ballast && (s.full || free < s.marks.Ballast/2) && free < s.marks.Appends:
		return RefusesAppends, release
	case !s.ballast && free < s.marks.Appends+s.marks.Appends/8+s.marks.Ballast:
		return RefusesAppends, leave
	}
	do := leave
	if !s.ballast && s.marks.Ballast > 0 {
		do = remake
		s.usage.Free -= s.marks.Ballast
	}
	switch {
	case !above(s.marks.Appends, RefusesAppends):
		return RefusesAppends, do
	case !above(s.marks.Records, RefusesRecords):
		return RefusesRecords, do
	default:
		return OK, do
	}
}
