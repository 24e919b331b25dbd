package sim

import (
	"syscall"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
)

// The faults, as places in faultKnobs.weights.
const (
	killOne = iota
	powerOne
	powerAll
	killInCall
	syncFails
	readFails
	diskFull
	pauseOne
	slowOne
	cutOneWay
	cutOff
	split
	etcdAway
	etcdCutOff
	rotBit
	loseDisk
	faultKinds
)

var faultNames = [faultKinds]string{ //nolint:gochecknoglobals // constant.
	"kill -9", "power cut", "power cut of all", "death in a disk call", "failed fsync", "read EIO", "disk full", "pause", "slow machine", "one-way cut",
	"machine cut off", "split", "etcd outage", "machine cut from etcd", "bit rot", "lost disk",
}

// trouble makes a fault now and then.
func (w *World) trouble() {
	if w.calm {
		return
	}
	w.agenda.push(w.now+w.knobs.faults.every/2+time.Duration(w.rng.Int64N(int64(w.knobs.faults.every))), w.trouble)
	sum := 0
	for _, weight := range w.knobs.faults.weights {
		sum += weight
	}
	if sum == 0 {
		return
	}
	at := w.rng.IntN(sum)
	for kind, weight := range w.knobs.faults.weights {
		if at -= weight; at < 0 {
			w.harm(kind, w.nodes[w.rng.IntN(len(w.nodes))])
			return
		}
	}
}

// moment is a place in the protocol where a fault hurts more than elsewhere.
func (w *World) moment(what string, n *node) {
	if w.calm || w.rng.IntN(100) >= w.knobs.faults.moments {
		return
	}
	w.stats.add("fault " + what)
	kind := pick(w.rng, killOne, powerOne, powerAll, killInCall, cutOff, pauseOne)
	w.agenda.push(w.now+time.Duration(w.rng.Int64N(int64(2*time.Millisecond))), func() { w.harm(kind, n) })
}

// harm does one fault to a machine.
func (w *World) harm(kind int, n *node) {
	if w.calm {
		return
	}
	done := true
	switch kind {
	case killOne:
		n.end(false)
		n.restartSoon()
	case powerOne:
		n.end(true)
		n.restartSoon()
	case powerAll:
		for _, m := range w.nodes {
			m.end(true)
			m.restartSoon()
		}
	case killInCall, syncFails, readFails, diskFull:
		done = n.p != nil
		if done {
			n.p.harmDisk(kind)
		}
	case pauseOne:
		n.pausedTo = w.now + w.duration(3*time.Second)
	case slowOne:
		n.slow = 20
		w.later(2*time.Second, func() { n.slow = 1 })
	case cutOneWay, cutOff, split:
		w.harmWire(kind, n)
	case etcdAway:
		w.etcd.down = true
		w.later(3*time.Second, func() { w.etcd.down = false })
	case etcdCutOff:
		n.etcdCut = true
		w.later(3*time.Second, func() { n.etcdCut = false })
	case rotBit:
		done = n.weak && n.rot(w.rng)
		n.rotten = n.rotten || done
	case loseDisk:
		if done = n.weak && !n.lost; done {
			w.loseDisk(n)
		}
	}
	if done {
		w.note(faultNames[kind], n)
		w.stats.add(faultNames[kind])
		w.stats["faults"]++
	}
}

// duration is how long something lasts: often short.
func (w *World) duration(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most) >> w.rng.IntN(7)))
}

func (w *World) later(most time.Duration, do func()) { w.agenda.push(w.now+w.duration(most), do) }

func (p *process) harmDisk(kind int) {
	w := p.n.w
	switch kind {
	case killInCall:
		p.fuse, p.fusePower = 1+w.rng.IntN(12), w.rng.IntN(3) > 0
		w.later(3*time.Second, func() { p.n.restartSoon() })
	case syncFails:
		p.failSync(w.rng)
	case readFails:
		p.unreadable = true
		rule := p.faults.Add(faultfs.Rule{Ops: faultfs.Read, Path: "*.log", First: 1 + w.rng.IntN(5), Count: 1 + w.rng.IntN(2), Err: syscall.EIO})
		w.later(time.Second, rule.Remove)
	case diskFull:
		rule := p.faults.Add(faultfs.Rule{
			Ops: faultfs.Write | faultfs.Allocate, Path: pick(w.rng, "", "*.log"), First: 1 + w.rng.IntN(5), Err: syscall.ENOSPC, Short: pick(w.rng, 0, 100, 5000),
		})
		w.later(time.Second, rule.Remove)
	}
}

func (w *World) harmWire(kind int, n *node) {
	i := int(n.id) - 1
	set := func(to bool, from, at int) { w.wire.cut[from][at] = to }
	var cut [][2]int
	switch kind {
	case cutOneWay:
		cut = append(cut, [2]int{i, w.rng.IntN(len(w.nodes))})
	case cutOff:
		for j := range w.nodes {
			cut = append(cut, [2]int{i, j}, [2]int{j, i})
		}
	case split:
		side := make([]bool, len(w.nodes))
		for j := range side {
			side[j] = w.rng.IntN(2) == 0
		}
		for a := range side {
			for b := range side {
				if side[a] != side[b] {
					cut = append(cut, [2]int{a, b})
				}
			}
		}
	}
	for _, c := range cut {
		set(true, c[0], c[1])
	}
	w.later(3*time.Second, func() {
		for _, c := range cut {
			set(false, c[0], c[1])
		}
	})
}

// loseDisk replaces a machine's disk by an empty one. Its replicas are gone; as a new broker of the old name it may get others.
func (w *World) loseDisk(n *node) {
	n.end(true)
	n.mem, n.formatted, n.lost, n.rotten, n.made = newMem(&n.clock), false, true, false, map[partition.UUID]bool{}
	n.ruined = nil
	for _, pt := range w.parts {
		delete(pt.replicas, n.id)
	}
	n.restartSoon()
}
