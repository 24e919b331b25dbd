package model

// reply goes out once everything written so far is durable.
func (b *broker) reply(m message) { b.acks = append(b.acks, m) }

func (w *World) flush(b *broker) {
	if b.d.dirty() && w.weights[9] > 0 && w.r.IntN(40) == 0 {
		w.stats["fsyncfail"]++
		b.d.failSync(w.r)
		if w.mut != "retry-fsync-after-EIO" {
			w.crash(b, false) // poisoned: no reply leaves, the process ends, the pages stay
			return
		}
		b.d.durTo = len(b.d.log)
	}
	b.d.persist(w.r.IntN(2) == 0)
	for _, m := range b.acks {
		w.send(m)
	}
	b.acks = nil
	if b.phase != following {
		b.own = min(b.d.durTo, goodPrefix(b.d.log))
		w.progress(b)
	}
}

func (w *World) deliver(m message) {
	b := w.b[m.to]
	if !b.up || m.inc != b.inc {
		return
	}
	switch m.k {
	case prepare:
		w.onPrepare(b, m)
	case appendTo:
		w.onAppend(b, m)
	case prepareOK:
		if b.phase == preparing && b.ep == m.ep {
			b.prep[m.from] = m
			w.tryRecover(b)
		}
	case appendOK:
		w.onAppendOK(b, m)
	case nack:
		w.onNack(b, m)
	case fetch:
		if sl := b.d.file; m.prev < len(sl) && sl[m.prev].ok && sl[m.prev].e.Ep == m.prevEp && !sl[m.prev].e.Bad {
			w.send(message{k: fetchOK, from: b.id, to: m.from, ep: m.ep, prev: m.prev, entries: []Entry{sl[m.prev].e}})
		}
	case fetchOK:
		if m.prev < len(b.d.log) && b.d.log[m.prev].same(m.entries[0]) && b.d.log[m.prev].Bad {
			b.d.fix(m.prev, m.entries[0])
		}
	}
}

func (w *World) onPrepare(b *broker, m message) {
	if m.ep < b.d.prom && w.mut != "answer-stale-prepare" {
		w.send(message{k: nack, from: b.id, to: m.from, ep: m.ep, reject: b.d.prom})
		return
	}
	if m.ep > b.d.prom {
		b.take(m.ep, w.mut)
		if w.mut == "truncate-to-hw" && b.hw < len(b.d.log) {
			b.d.truncate(b.hw, w.mut, func() bool { return false })
		}
	}
	b.reply(b.position(m.from, m.ep))
}

// position is a PrepareOK: the whole log stands for (last epoch, end) and what a candidate would fetch.
func (b *broker) position(to int, ep int32) message {
	return message{k: prepareOK, from: b.id, to: to, ep: ep, entries: append([]Entry(nil), b.d.log...), ragged: b.d.ragged}
}

// take promises an epoch and steps down from a lower one.
func (b *broker) take(ep int32, mut string) {
	if mut == "volatile-promise" {
		b.d.prom = max(b.d.prom, ep)
	} else {
		b.d.promise(ep)
	}
	b.stepDown(ep)
}

func (b *broker) stepDown(ep int32) {
	if b.phase != following && b.ep < ep {
		b.phase, b.wait = following, nil
	}
}

func (w *World) onAppend(b *broker, m message) {
	if m.ep < b.d.prom && w.mut != "accept-stale-append" {
		w.send(message{k: nack, from: b.id, to: m.from, ep: m.ep, reject: b.d.prom})
		return
	}
	if m.ep > b.d.prom {
		b.take(m.ep, w.mut)
	}
	if b.phase != following && b.ep == m.ep {
		return
	}
	if log := b.d.log; m.prev > len(log) || m.prev > 0 && (log[m.prev-1].Ep != m.prevEp || log[m.prev-1].chain() != m.prevSum) {
		w.send(message{k: nack, from: b.id, to: m.from, ep: m.ep, match: min(len(log), m.prev-1)})
		return
	}
	match, ok := w.take(b, m)
	if !ok {
		return
	}
	if w.mut == "match-whole-log" {
		match = len(b.d.log)
	}
	match = min(match, goodPrefix(b.d.log))
	hw := m.hw
	if w.mut != "uncapped-hw" {
		hw = min(hw, match)
	}
	if hw = min(hw, len(b.d.log)); hw > b.hw {
		b.hw = hw
		w.expose(b)
	}
	answer := message{k: appendOK, from: b.id, to: m.from, ep: m.ep, match: match}
	if w.mut == "ack-before-fsync" {
		w.send(answer)
	} else {
		b.reply(answer)
	}
}

// take writes what a leader sent and gives the end of what it wrote or found; ok is false if the process ended meanwhile.
func (w *World) take(b *broker, m message) (end int, ok bool) {
	for i, e := range m.entries {
		o := m.prev + i
		if o < len(b.d.log) {
			if x := b.d.log[o]; x.Ep == e.Ep {
				if x.Bad && !e.Bad {
					b.d.fix(o, e)
				}
				continue
			}
			if o < b.hw {
				w.fail("I6 replica %d told to cut to %d below its high watermark %d", b.id, o, b.hw)
			}
			if !b.d.truncate(o, w.mut, w.crashPoint(b)) {
				return 0, false
			}
		}
		if len(b.d.log)-b.d.durTo >= window {
			return o, true // no more unsynced than the window
		}
		b.d.append(e)
		// Its leader's log is complete, and this one is a prefix of that once the entry is durable.
		b.d.healing = b.d.healing || b.d.ragged && e.Val == -e.Ep && e.Ep == m.ep
	}
	return m.prev + len(m.entries), true
}
