package model

import "math/rand/v2"

// window is W: how many entries of a file the writer leaves unsynced at the most, and how far beyond what is proven a tear can reach.
const window = 4

// slot is a place in a file: an entry, or zeros.
type slot struct {
	e  Entry
	ok bool
}

// write is one operation on a file: truncate to at, or put e at at.
type write struct {
	cut bool
	at  int
	e   Entry
}

type recordKind uint8

const (
	recPromise recordKind = iota
	recMark               // everything below at is persisted; never falls within a generation
	recHW
	recData   // redo: e at at
	recVoid   // a new generation: all redo before is dead, the mark is at
	recRagged // recovery cut a suspect tail
	recWhole  // and a leader has made the log complete since
)

type record struct {
	k  recordKind
	at int
	ep int32
	e  Entry
}

// Disk is a log file and a journal, each as the platter has it, as the page cache has it, and what lies between.
type Disk struct {
	file  []slot  // on the platter
	pages []slot  // in the page cache: what a read returns while the machine has power
	pend  []write // not synced: any subset survives a power cut

	journal []record // on the platter
	jpages  []record // in the page cache
	jpend   []record // not synced: a prefix survives

	// What the process knows.
	log     []Entry // verified; faults are Bad
	prom    int32
	ragged  bool
	healing bool // a leader made the log complete; true once that is durable
	durTo   int  // log[:durTo] is durable in this generation, by file or journal
}

func put(file []slot, w write) []slot {
	if w.cut {
		return append([]slot(nil), file[:min(w.at, len(file))]...)
	}
	out := append([]slot(nil), file...)
	for len(out) <= w.at {
		out = append(out, slot{})
	}
	out[w.at] = slot{e: w.e, ok: true}
	return out
}

func (d *Disk) do(w write) {
	d.pages = put(d.pages, w)
	d.pend = append(d.pend, w)
}

func (d *Disk) note(r record) {
	d.jpages = append(d.jpages, r)
	d.jpend = append(d.jpend, r)
}

func (d *Disk) append(e Entry) {
	d.do(write{at: len(d.log), e: e})
	d.log = append(d.log[:len(d.log):len(d.log)], e)
}

// fix replaces a rotten entry by a good copy, in place.
func (d *Disk) fix(at int, e Entry) {
	e.Bad = false
	d.do(write{at: at, e: e})
	d.log = append([]Entry(nil), d.log...)
	d.log[at] = e
	d.durTo = min(d.durTo, at)
}

func (d *Disk) promise(ep int32) {
	if ep > d.prom {
		d.prom = ep
		d.note(record{k: recPromise, ep: ep})
	}
}

func (d *Disk) syncFile() {
	for _, w := range d.pend {
		d.file = put(d.file, w)
	}
	d.pend = nil
}

func (d *Disk) syncJournal() {
	d.journal = append(d.journal[:len(d.journal):len(d.journal)], d.jpend...)
	d.jpend = nil
}

// persist makes the whole log durable: by a sync of the file, or by redo in the journal.
func (d *Disk) persist(byJournal bool) {
	if !byJournal {
		d.syncFile()
		d.syncJournal()
		d.durTo = len(d.log)
		d.heal()
		return
	}
	to := d.durTo
	for ; to < len(d.log) && !d.log[to].Bad; to++ {
		d.note(record{k: recData, at: to, e: d.log[to]})
	}
	d.syncJournal()
	d.durTo = to
	if to == len(d.log) {
		d.heal()
	}
}

func (d *Disk) heal() {
	if d.healing {
		d.ragged, d.healing = false, false
		d.note(record{k: recWhole})
	}
}

// dirty tells whether a sync would make anything durable.
func (d *Disk) dirty() bool { return len(d.pend) > 0 || len(d.jpend) > 0 }

// lose is what a power cut does: any subset of the file's writes, and a prefix of the journal's, were on the platter.
func (d *Disk) lose(r *rand.Rand) {
	d.failSync(r)
	d.pages = append([]slot(nil), d.file...)
	d.jpages = append([]record(nil), d.journal...)
}

// failSync is an EIO: some writes reached the platter, the others never will, and the pages stay in the cache marked clean.
func (d *Disk) failSync(r *rand.Rand) {
	keep := r.IntN(101)
	for _, w := range d.pend {
		if r.IntN(100) < keep {
			d.file = put(d.file, w)
		}
	}
	d.journal = append(d.journal[:len(d.journal):len(d.journal)], d.jpend[:r.IntN(len(d.jpend)+1)]...)
	d.pend, d.jpend = nil, nil
}

// holds tells whether e is durable at its place, by file or by journal.
func (d *Disk) holds(at int, e Entry) bool {
	if at < len(d.file) && d.file[at].ok && d.file[at].e.same(e) {
		return true
	}
	held := false
	for _, j := range d.journal {
		switch {
		case j.k == recVoid:
			held = false
		case j.k == recData && j.at == at:
			held = j.e.same(e)
		}
	}
	return held
}

// rot damages a durable entry for every later read.
func (d *Disk) rot(at int) {
	for _, file := range []*[]slot{&d.file, &d.pages} {
		if at < len(*file) && (*file)[at].ok {
			*file = append([]slot(nil), *file...)
			(*file)[at].e.Bad = true
		}
	}
	if at < len(d.log) {
		d.log = append([]Entry(nil), d.log...)
		d.log[at].Bad = true
	}
}

// proven is D as a recovery from the platter would see it.
func (d *Disk) proven() int {
	s := replay(d.journal, "")
	proven := max(s.mark, min(s.hw, len(d.file)))
	for at, sl := range d.file {
		if sl.ok && !sl.e.Bad {
			proven = max(proven, min(sl.e.Hint, at))
		}
	}
	return proven
}
