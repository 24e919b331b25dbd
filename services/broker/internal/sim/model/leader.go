package model

func (w *World) becomeLeader(b *broker, a assignment) {
	if b.d.prom > a.ep || b.phase != following && b.ep >= a.ep {
		return
	}
	if a.boot != b.boot && w.mut != "leader-resumes-own-epoch-after-restart" {
		return // the epoch belongs to another life of this broker
	}
	if b.d.prom == a.ep && b.phase == following {
		return // promised in an earlier life
	}
	if w.mut == "volatile-promise" {
		b.d.prom = a.ep
	} else {
		b.d.promise(a.ep)
	}
	w.stats["elect"]++
	b.phase, b.ep, b.lmem, b.lbase = preparing, a.ep, a.members, a.base
	if w.mut == "fence-new-members-only" {
		b.lbase = a.members
	}
	b.prep, b.wait, b.match, b.own, b.tired = map[int]message{}, nil, [brokers]int{}, 0, false
	if in(b.lbase, b.id) {
		b.reply(b.position(b.id, a.ep))
	}
	w.askAgain(b)
}

func (w *World) askAgain(b *broker) {
	for i := range brokers {
		if i != b.id && in(b.lbase|b.lmem, i) {
			w.send(message{k: prepare, from: b.id, to: i, ep: b.ep})
		}
	}
}

// fenced tells whether the answers suffice. A ragged one fences, but stands for its whole log only when all base members have answered or
// the candidate has waited long enough.
func (w *World) fenced(b *broker) bool {
	var got, whole uint8
	for i := range brokers {
		if m, ok := b.prep[i]; ok && in(b.lbase, i) {
			got |= 1 << i
			if !m.ragged {
				whole |= 1 << i
			}
		}
	}
	if w.mut == "no-fence-quorum" {
		return got != 0
	}
	if majority(b.lbase, whole) || got == b.lbase {
		return true
	}
	return majority(b.lbase, got) && b.tired
}

func (w *World) choose(b *broker) int {
	best := -1
	for i := range brokers {
		m, ok := b.prep[i]
		if !ok || !in(b.lbase, i) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		top := b.prep[best].entries
		longer := len(m.entries) > len(top)
		switch {
		case w.mut == "choose-by-length":
			if longer {
				best = i
			}
		case lastEpoch(m.entries) > lastEpoch(top), lastEpoch(m.entries) == lastEpoch(top) && longer:
			best = i
		}
	}
	return best
}

// resolve repairs the chosen log from the other answers, or cuts it where a nack quorum proves that the damaged entry was never committed.
// ok is false where more answers are needed.
func (w *World) resolve(b *broker, log []Entry) (whole []Entry, ok bool) {
	for o := range log {
		if !log[o].Bad {
			continue
		}
		fixed, lacking := false, 0
		for i := range brokers {
			m, answered := b.prep[i]
			if !answered {
				continue
			}
			if o < len(m.entries) && m.entries[o].same(log[o]) && !m.entries[o].Bad {
				log[o], fixed = m.entries[o], true
				break
			}
			if in(b.lbase, i) && !m.ragged && (o >= len(m.entries) || m.entries[o].Ep != log[o].Ep) {
				lacking++
			}
		}
		if fixed {
			w.stats["repair"]++
			continue
		}
		n := count(b.lbase)
		if lacking >= n-(n/2+1)+1 {
			w.stats["nack-cut"]++
			return log[:o], true
		}
		return nil, false
	}
	return log, true
}

func (w *World) tryRecover(b *broker) {
	if !w.fenced(b) {
		return
	}
	best := w.choose(b)
	if best < 0 {
		return
	}
	log, ok := w.resolve(b, append([]Entry(nil), b.prep[best].entries...))
	if !ok || !w.adopt(b, log) {
		return
	}
	for i := range brokers {
		b.next[i] = len(log)
	}
	if w.mut != "no-epoch-start" {
		w.make(b, -b.ep)
	}
	b.d.healing = b.d.healing || b.d.ragged
	b.start = len(b.d.log)
	b.phase = syncing
	if w.mut == "no-epoch-start" {
		w.activate(b)
	}
	w.pump(b)
}

// adopt makes the candidate's log the chosen one; ok is false if the process ended meanwhile.
func (w *World) adopt(b *broker, log []Entry) (ok bool) {
	same := 0
	for same < len(log) && same < len(b.d.log) && b.d.log[same].Ep == log[same].Ep {
		if b.d.log[same].Bad {
			b.d.fix(same, log[same])
		}
		same++
	}
	if same < len(b.d.log) {
		if same < b.hw {
			w.fail("I6 leader %d adopts a log that cuts below its high watermark %d", b.id, b.hw)
		}
		if !b.d.truncate(same, w.mut, w.crashPoint(b)) {
			return false
		}
		if w.mut != "stale-durable-mark-after-truncate" {
			b.own = min(b.own, same)
		}
	}
	for _, e := range log[same:] {
		if len(b.d.log)-b.d.durTo >= window { // a candidate syncs as it copies
			b.d.persist(false)
		}
		b.d.append(e)
	}
	return true
}

func (w *World) make(b *broker, val int32) {
	if c, ok := w.created[b.ep]; ok && c != b.id {
		w.fail("I1 two leaders made entries in epoch %d", b.ep)
	}
	w.created[b.ep] = b.id
	b.d.append(Entry{Ep: b.ep, Val: val, Hint: b.hw, Prev: chainAt(b.d.log, len(b.d.log))})
}

func (w *World) pump(b *broker) {
	if b.phase < syncing {
		return
	}
	good := goodPrefix(b.d.log)
	for i := range brokers {
		if i == b.id || !in(b.lmem, i) {
			continue
		}
		n := min(b.next[i], len(b.d.log))
		m := message{k: appendTo, from: b.id, to: i, ep: b.ep, prev: n, hw: b.hw, prevSum: chainAt(b.d.log, n)}
		if n > 0 {
			m.prevEp = b.d.log[n-1].Ep
		}
		end := max(n, min(len(b.d.log), n+1+w.r.IntN(4), max(good, n)))
		m.entries = append([]Entry(nil), b.d.log[n:end]...)
		w.send(m)
	}
	for i := range brokers {
		if good < len(b.d.log) && i != b.id {
			w.send(message{k: fetch, from: b.id, to: i, ep: b.ep, prev: good, prevEp: b.d.log[good].Ep})
		}
	}
}

func (w *World) onAppendOK(b *broker, m message) {
	if b.phase < syncing || b.ep != m.ep && w.mut != "count-stale-acks" {
		return
	}
	b.match[m.from] = max(b.match[m.from], m.match)
	if m.match > b.next[m.from] || b.next[m.from] > len(b.d.log) {
		b.next[m.from] = min(m.match, len(b.d.log))
	}
	w.progress(b)
}

func (w *World) onNack(b *broker, m message) {
	switch {
	case b.phase == following || b.ep != m.ep:
	case m.reject > b.ep:
		b.stepDown(m.reject)
	case b.phase >= syncing && m.reject == 0:
		b.next[m.from] = max(0, min(m.match, b.next[m.from]))
	}
}

func (w *World) quorumAt(b *broker, o int) bool {
	var have uint8
	for i := range brokers {
		match := b.match[i]
		if i == b.id {
			match = b.own
			if w.mut == "leader-counts-itself-before-fsync" {
				match = len(b.d.log)
			}
		}
		if match >= o {
			have |= 1 << i
		}
	}
	return majority(b.lmem, have)
}

func (w *World) activate(b *broker) {
	if w.cutEtcd[b.id] {
		return
	}
	if w.mut == "unguarded-activation" {
		w.etcd = assignment{ep: b.ep, leader: b.id, members: b.lmem, active: true, baseEp: b.ep, base: b.lmem}
	} else {
		if w.etcd.ep != b.ep || w.etcd.active && w.etcd.leader != b.id {
			return
		}
		w.etcd.active = true
	}
	b.phase = leading
	w.stats["activate"]++
	if w.mut != "no-epoch-start" {
		w.checkComplete(b)
	}
}

func (w *World) progress(b *broker) {
	if b.phase == syncing && w.quorumAt(b, b.start) {
		w.activate(b)
	}
	if b.phase != leading && (b.phase != syncing || w.mut != "ack-before-activation") {
		return
	}
	for o := b.hw + 1; o <= len(b.d.log) && w.quorumAt(b, o); o++ {
		if o >= b.start || w.mut == "no-epoch-start" { // only what is at or past its own EpochStart commits by counting
			b.hw = o
		}
	}
	for len(b.wait) > 0 && b.wait[0] < b.hw {
		w.acks++
		w.checkDurable(b, b.wait[0])
		b.wait = b.wait[1:]
	}
	w.expose(b)
}
