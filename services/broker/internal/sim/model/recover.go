package model

// state is what the journal says of the replica.
type state struct {
	promise int32
	mark    int
	hw      int
	ragged  bool
	redo    []record
}

func replay(journal []record, mut string) state {
	var s state
	for _, j := range journal {
		switch j.k {
		case recPromise:
			s.promise = max(s.promise, j.ep)
		case recMark:
			s.mark = max(s.mark, j.at)
		case recHW:
			s.hw = max(s.hw, j.at)
		case recVoid:
			if mut != "redo-without-void" {
				s.redo = nil
			}
			if mut != "mark-not-reset" {
				s.mark = j.at
			}
		case recData:
			s.redo = append(s.redo, j)
		case recRagged:
			s.ragged = mut != "ragged-forgotten"
		case recWhole:
			s.ragged = false
		}
	}
	return s
}

// scan classifies each place that does not verify: below what is proven it is corrupt and stays; above, within the window, the log is torn
// and ends there; beyond the window it is suspect and ends there too, and the replica says so in its answers.
func scan(file []slot, s state, mut string) (log []Entry, proven int, ragged bool) {
	proven = max(s.mark, min(s.hw, len(file)))
	chain := uint64(0)
	for at, sl := range file {
		if sl.ok && !sl.e.Bad && sl.e.Prev == chain {
			log = append(log, sl.e)
			chain = sl.e.chain()
			continue
		}
		d := proven
		for _, later := range file[at+1:] {
			if later.ok && !later.e.Bad && mut != "no-commit-hint" {
				d = max(d, min(later.e.Hint, len(file)))
			}
		}
		if at >= d || !sl.ok || mut == "cut-at-corruption" {
			return log, min(proven, len(log)), suspect(file, at, d)
		}
		bad := sl.e
		bad.Bad = true
		log = append(log, bad)
		chain = sl.e.chain()
	}
	return log, min(proven, len(log)), false
}

// suspect tells whether anything lies further behind what is proven than the writer ever leaves unsynced.
func suspect(file []slot, at, proven int) bool {
	for i := max(at, proven+window); i < len(file); i++ {
		if file[i].ok {
			return true
		}
	}
	return false
}

// reapply puts the journal's data over the file: only from a place that the file, or redo before, reaches without a hole, and from there
// unconditionally. What lies behind a hole is torn.
func reapply(file []slot, redo []record, proven int, mut string) []slot {
	reach, chain := 0, uint64(0)
	for reach < len(file) && file[reach].ok && (file[reach].e.Prev == chain || file[reach].e.Bad) {
		chain = file[reach].e.chain()
		reach++
	}
	for _, j := range redo {
		if j.at > max(reach, proven) {
			break
		}
		file = put(file, write{at: j.at, e: j.e})
		reach = max(reach, j.at+1)
	}
	return file
}

// reopen recovers the disk of a new process from what reads return. crashed may end it at each step; ok is false then.
func (d *Disk) reopen(mut string, crashed func() bool) (ok bool) {
	s := replay(d.jpages, mut)
	view := reapply(d.pages, s.redo, s.mark, mut)
	log, proven, ragged := scan(view, s, mut)
	d.log, d.durTo, d.healing = log, len(log), false
	d.prom = max(s.promise, lastEpoch(log))
	if mut == "volatile-promise" {
		d.prom = lastEpoch(log)
	}
	d.ragged = (ragged || s.ragged) && mut != "suspect-counts"
	if mut == "trust-pagecache-after-restart" {
		d.pages = view
		return true
	}
	return d.rewrite(s.redone(view, d.pages, mut), proven, mut, crashed)
}

// redone is where redo wrote: everywhere it has data for, even where the page cache shows the same bytes, since after a failed sync these
// may be on no platter.
func (s state) redone(view, pages []slot, mut string) map[int]bool {
	at := map[int]bool{}
	for _, j := range s.redo {
		if mut != "redo-only-what-differs" || j.at >= len(pages) || pages[j.at] != view[j.at] {
			at[j.at] = true
		}
	}
	return at
}

// rewrite makes the tail [proven, end), and redo below, durable by writing the same bytes again in place. Then the file, not the journal, is
// the truth: a Void ends the redo and sets the mark. Last, what is behind the end goes.
func (d *Disk) rewrite(redone map[int]bool, proven int, mut string, crashed func() bool) bool {
	d.pend = nil
	if mut == "cut-before-rewrite" {
		d.do(write{cut: true, at: proven})
		d.syncFile()
		if crashed() {
			return false
		}
	}
	for at, e := range d.log {
		if !e.Bad && (at >= proven || redone[at]) {
			d.do(write{at: at, e: e})
		}
	}
	if crashed() {
		return false
	}
	d.syncFile()
	if crashed() {
		return false
	}
	d.jpend = nil
	d.note(record{k: recPromise, ep: d.prom})
	if d.ragged {
		d.note(record{k: recRagged})
	}
	d.note(record{k: recVoid, at: len(d.log)})
	if crashed() {
		return false
	}
	d.syncJournal()
	if crashed() {
		return false
	}
	if len(d.pages) > len(d.log) {
		d.do(write{cut: true, at: len(d.log)})
		d.syncFile()
	}
	return !crashed()
}

// truncate cuts the log with its barrier: the file synced, its redo dead and the mark reset, durably; then the cut, durable before anything
// is appended behind it.
func (d *Disk) truncate(to int, mut string, crashed func() bool) bool {
	if mut != "truncate-without-barrier" {
		d.syncFile()
		if crashed() {
			return false
		}
		d.note(record{k: recVoid, at: to})
		d.syncJournal()
		if crashed() {
			return false
		}
	}
	d.log = append([]Entry(nil), d.log[:to]...)
	d.do(write{cut: true, at: to})
	if mut != "cut-not-durable" {
		d.syncFile()
		if crashed() {
			return false
		}
	}
	d.healing = false
	if mut != "stale-durable-mark-after-truncate" {
		d.durTo = min(d.durTo, to)
	}
	return true
}

// recycle frees the journal's blocks: live state is copied, and the file that the dropped redo covers is synced first.
func (d *Disk) recycle(mut string) {
	if mut != "recycle-without-sync" {
		d.syncFile()
	}
	d.syncJournal()
	s := replay(d.journal, mut)
	fresh := []record{{k: recPromise, ep: s.promise}, {k: recHW, at: s.hw}, {k: recMark, at: s.mark}}
	if s.ragged {
		fresh = append(fresh, record{k: recRagged})
	}
	d.journal, d.jpages = fresh, append([]record(nil), fresh...)
}
