package model

// Entry is a record in a log: data (Val > 0) or the start of its epoch (Val = -Ep).
type Entry struct {
	Ep   int32
	Val  int32
	Hint int    // the leader's high watermark when it made this
	Prev uint64 // chain over all earlier entries
	Bad  bool   // rotten: its checksum fails, its place in the index is known
}

func (e Entry) same(o Entry) bool { return e.Ep == o.Ep && e.Val == o.Val && e.Prev == o.Prev }

// chain is the Prev of the entry behind e.
func (e Entry) chain() uint64 {
	h := e.Prev ^ uint64(uint32(e.Ep))<<32 ^ uint64(uint32(e.Val))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func chainAt(log []Entry, n int) uint64 {
	if n == 0 {
		return 0
	}
	return log[n-1].chain()
}

func goodPrefix(log []Entry) int {
	for i, e := range log {
		if e.Bad {
			return i
		}
	}
	return len(log)
}

func lastEpoch(log []Entry) int32 {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Ep
}
