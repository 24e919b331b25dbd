package model

func (w *World) crash(b *broker, power bool) {
	b.up, b.phase, b.acks, b.wait, b.hw = false, following, nil, nil, 0
	if power {
		b.d.lose(w.r)
	}
	w.stats["crash"]++
}

func (w *World) restart(b *broker) {
	b.boot++
	b.fresh = 30
	b.known = assignment{}
	b.up = true
	if !b.d.reopen(w.mut, w.crashPoint(b)) {
		return // down again
	}
	if b.d.ragged {
		w.stats["ragged"]++
	}
}

// elect is a coordinator: the next epoch, perhaps with other members.
func (w *World) elect() {
	n := w.etcd
	n.ep++
	if w.etcd.active || w.mut == "base-from-electing" {
		n.baseEp, n.base = w.etcd.ep, w.etcd.members
	}
	n.active = false
	if w.r.IntN(3) == 0 && w.weights[10] > 0 {
		for {
			n.members = uint8(w.r.IntN(1 << brokers))
			k := count(n.members)
			if k == 3 || k == 5 && w.r.IntN(4) == 0 || k == 1 && w.r.IntN(20) == 0 {
				break
			}
		}
		w.stats["reconfigure"]++
	}
	for range 20 {
		if n.leader = w.r.IntN(brokers); in(n.members, n.leader) {
			n.boot = w.b[n.leader].boot
			w.etcd = n
			return
		}
	}
}

// learn is a watch event, or a list.
func (w *World) learn(b *broker) {
	if !b.up || w.cutEtcd[b.id] || w.etcd.ep < b.known.ep {
		return
	}
	b.known = w.etcd
	if b.known.leader == b.id && !b.known.active {
		w.becomeLeader(b, b.known)
	}
}

func (w *World) lead(b *broker) {
	if !b.up || b.phase == following {
		return
	}
	if b.phase == preparing {
		w.askAgain(b)
		if !w.deepRot && w.r.IntN(10) == 0 {
			b.tired = true
			w.tryRecover(b)
		}
	}
	if b.phase == syncing {
		w.progress(b)
	}
	w.pump(b)
}

func (w *World) produce(b *broker) {
	for i := range brokers {
		l := w.b[(b.id+i)%brokers]
		if l.up && l.phase == leading && len(l.d.log) < 40 && len(l.d.log)-l.d.durTo < window {
			w.val++
			l.wait = append(l.wait, len(l.d.log))
			w.make(l, w.val)
			if w.r.IntN(2) == 0 {
				return
			}
		}
	}
}

// upkeep is what a disk does late and by itself: marks, high watermarks, recycling of the journal.
func (w *World) upkeep(b *broker) {
	if !b.up {
		return
	}
	switch w.r.IntN(3) {
	case 0:
		if w.mut != "retry-fsync-after-EIO" && w.mut != "trust-pagecache-after-restart" {
			b.d.note(record{k: recMark, at: b.d.durTo}) // what was synced; that it is rotten since, the mark is to tell
		}
	case 1:
		b.d.note(record{k: recHW, at: b.hw})
	case 2:
		b.d.recycle(w.mut)
	}
}

func (w *World) blackout() {
	for _, q := range w.b {
		if q.up {
			w.crash(q, true)
		} else {
			q.d.lose(w.r)
		}
	}
	for _, q := range w.b {
		w.restart(q)
	}
	w.stats["blackout"]++
}

// rot damages a durable entry of the weak broker: one that a mark, a high watermark or a commit hint proves, or, in some runs, one that
// only its distance from what is proven gives away.
func (w *World) rot() {
	q := w.b[w.weak]
	if len(q.d.file) == 0 || q.d.dirty() {
		return
	}
	at := w.r.IntN(len(q.d.file))
	proven := q.d.proven()
	if at >= proven && (!w.deepRot || len(q.d.file) <= proven+window) {
		return
	}
	q.d.rot(at)
	w.stats["rot"]++
	if q.up && w.r.IntN(3) == 0 {
		w.crash(q, false)
	}
}

func (w *World) wipe() {
	q := w.b[w.weak]
	w.crash(q, true)
	q.d = Disk{}
	q.inc++
	w.stats["wipe"]++
	if w.mut == "wiped-disk-keeps-identity" {
		q.up = true
		return
	}
	q.wiped = true
}

func (w *World) partition() {
	i, j := w.r.IntN(brokers), w.r.IntN(brokers)
	w.cut[i][j] = w.r.IntN(3) == 0
	if w.r.IntN(3) == 0 {
		w.cutEtcd[i] = w.r.IntN(3) == 0
	}
}

func (w *World) heal() {
	w.cut, w.cutEtcd = [brokers][brokers]bool{}, [brokers]bool{}
	for _, q := range w.b {
		if !q.up && !q.wiped {
			w.restart(q)
		}
	}
}

func (w *World) network() {
	if len(w.net) == 0 {
		return
	}
	i := w.r.IntN(len(w.net))
	m, y := w.net[i], w.r.IntN(100)
	if y < 90 { // else it comes again
		w.drop(i)
	}
	if !w.cut[m.from][m.to] && y >= w.weights[0] {
		w.deliver(m)
	}
}

// fragile puts faults where the protocol is thinnest: a leader before its activation, a broker just restarted with unsynced operations.
func (w *World) fragile() bool {
	var thin []*broker
	for _, q := range w.b {
		if q.up && (q.phase == preparing || q.phase == syncing || q.fresh > 0 && q.d.dirty()) {
			thin = append(thin, q)
		}
		q.fresh = max(0, q.fresh-1)
	}
	if len(thin) == 0 {
		return false
	}
	q := thin[w.r.IntN(len(thin))]
	switch w.r.IntN(8) {
	case 0:
		w.crash(q, true)
		if w.r.IntN(2) == 0 {
			w.restart(q)
		}
		return true
	case 1:
		if q.d.dirty() && w.weights[9] > 0 && w.mut != "retry-fsync-after-EIO" {
			q.d.failSync(w.r)
			w.crash(q, false)
			w.restart(q)
			return true
		}
	case 2, 3:
		for k := 0; k < 5 && len(w.net) > 0; k++ {
			i := w.r.IntN(len(w.net))
			if m := w.net[i]; m.to == q.id || m.from == q.id {
				w.drop(i)
				if !w.cut[m.from][m.to] {
					w.deliver(m)
				}
				return true
			}
		}
	case 4:
		if o := w.b[w.r.IntN(brokers)]; o.up && o != q {
			w.flush(o)
			return true
		}
	}
	return false
}

func (w *World) step() {
	if w.biased && w.r.IntN(4) == 0 && w.fragile() {
		return
	}
	b := w.b[w.r.IntN(brokers)]
	switch x := w.r.IntN(102); {
	case x < 38:
		w.network()
	case x < 58:
		if b.up {
			w.flush(b)
		}
	case x < 68:
		w.produce(b)
	case x < 80:
		w.lead(b)
	case x < 86:
		w.learn(b)
	case x < 89:
		if w.r.IntN(30) < 1+w.weights[1] {
			w.elect()
		}
	default:
		w.disturb(b, x)
	}
	if w.b[w.weak].wiped {
		w.b[w.weak].up = false
	}
}

// disturb is the rest of a step: what goes wrong, and what is mended.
func (w *World) disturb(b *broker, x int) {
	switch {
	case x < 91:
		if w.weights[2] > 0 && b.up && w.r.IntN(12) < w.weights[2] {
			w.crash(b, w.r.IntN(2) == 0)
		}
	case x < 93:
		if !b.up && !b.wiped {
			w.restart(b)
		}
	case x < 95:
		if w.weights[3] > 0 {
			w.partition()
		}
	case x < 96:
		if w.r.IntN(8) == 0 {
			w.heal()
		}
	case x < 97:
		if w.weights[4] >= 3 && w.r.IntN(6) == 0 {
			w.blackout()
		}
	case x < 98:
		if w.weights[5] > 0 && w.r.IntN(3) == 0 {
			w.rot()
		}
	case x < 99:
		if w.weights[6] >= 3 && w.stats["wipe"] == 0 && w.weights[5] == 0 && w.r.IntN(10) == 0 {
			w.wipe()
		}
	default:
		w.upkeep(b)
	}
}

// settle mends everything, elects until a leader is active and all agree, and looks for what was committed: I3 at the end, I14.
func (w *World) settle() {
	clear(w.weights[:])
	w.biased = false
	w.heal()
	for range 60 {
		w.elect()
		for range 300 {
			if b := w.b[w.r.IntN(brokers)]; b.up {
				w.learn(b)
				w.lead(b)
				w.flush(b)
			}
			for range 4 {
				w.network()
			}
			if w.viol != "" {
				return
			}
		}
		if l := w.b[w.etcd.leader]; w.etcd.active && l.up && l.phase == leading {
			w.checkComplete(l)
			w.stats["settled"]++
			return
		}
	}
	w.stats["stuck"]++
	if w.stats["rot"]+w.stats["wipe"] == 0 {
		w.fail("I14 no leader after everything was mended")
	}
}

// Result is what a run came to.
type Result struct {
	Violation string // empty = none
	Acks      int
	Stats     map[string]int
}

// Run plays one seed for the given number of steps, with the rule of the protocol that mutant names removed ("" = none).
func Run(seed uint64, mutant string, steps int, bias bool) Result {
	w := newWorld(seed, mutant, bias)
	for i := 0; i < steps && w.viol == ""; i++ {
		w.step()
		if i%8 == 0 {
			w.checkLogs()
		}
	}
	if w.viol == "" {
		w.settle()
	}
	return Result{Violation: w.viol, Acks: w.acks, Stats: w.stats}
}
