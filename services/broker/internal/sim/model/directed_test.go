package model

import (
	"slices"
	"testing"
)

// directed are the rules that seeds show too rarely: each has a schedule of its own that ends in a violation without it.
func directed() map[string]func(w *World) {
	return map[string]func(w *World){
		"volatile-promise":                       promiseThenRestart,
		"leader-resumes-own-epoch-after-restart": leadTwice,
	}
}

func TestDirectedSchedules(t *testing.T) {
	for mutant, schedule := range directed() {
		for _, removed := range []bool{false, true} {
			w := newWorld(1, "", false)
			if removed {
				w.mut = mutant
			}
			clear(w.weights[:])
			schedule(w)
			if violated := w.viol != ""; violated != removed {
				t.Errorf("%s: rule removed %v, violation %q", mutant, removed, w.viol)
			}
		}
	}
}

// nominate makes a broker the candidate of the next epoch, with members 0 to 2.
func (w *World) nominate(leader int) *broker {
	if w.etcd.active {
		w.etcd.baseEp, w.etcd.base = w.etcd.ep, w.etcd.members
	}
	w.etcd.ep, w.etcd.leader, w.etcd.boot, w.etcd.active = w.etcd.ep+1, leader, w.b[leader].boot, false
	w.learn(w.b[leader])
	return w.b[leader]
}

// among delivers and syncs until nothing is left between the given brokers; messages of others wait.
func (w *World) among(set uint8) {
	for range 20 {
		for i := len(w.net) - 1; i >= 0 && i < len(w.net); i-- {
			if m := w.net[i]; in(set, m.from) && in(set, m.to) {
				w.drop(i)
				w.deliver(m)
			}
		}
		for i, b := range w.b {
			if in(set, i) && b.up {
				w.flush(b)
				w.lead(b)
			}
		}
	}
}

// pass delivers what waits of the given kinds to the given brokers, until nothing does. Those in synced sync after each message.
func (w *World) pass(to, synced uint8, kinds ...kind) {
	for i := 0; i < len(w.net); {
		m := w.net[i]
		if !in(to, m.to) || !slices.Contains(kinds, m.k) {
			i++
			continue
		}
		w.drop(i)
		w.deliver(m)
		if in(synced, m.to) {
			w.flush(w.b[m.to])
		}
		i = 0
	}
}

// add is a client's publish at a leader.
func (w *World) add(b *broker) {
	w.val++
	b.wait = append(b.wait, len(b.d.log))
	w.make(b, w.val)
}

// promiseThenRestart: 1 promises epoch 2 and restarts; then the leader of epoch 1 reaches it once more, and commits.
func promiseThenRestart(w *World) {
	old := w.nominate(0)
	w.among(0b011)
	w.net = nil
	next := w.nominate(2)
	w.flush(next)
	w.pass(0b110, 0b110, prepare, prepareOK) // 2 has chosen a log
	w.net = nil
	w.crash(w.b[1], false)
	w.restart(w.b[1])
	w.add(old)
	w.among(0b011)
	w.net = nil
	w.among(0b110)
}

// leadTwice: 0 takes epoch 2 up with the answers of 1 and 2 and gives 1 its EpochStart, behind an entry that only 1 had. Then its machine
// loses power with nothing synced. The next process takes epoch 2 up again, with a shorter log, and fills the same offset otherwise.
func leadTwice(w *World) {
	old := w.nominate(1)
	w.among(0b111)
	w.net = nil
	w.add(old)
	w.flush(old)
	w.net = nil
	first := w.nominate(0)
	w.pass(0b111, 0b110, prepare, prepareOK)
	w.pass(0b010, 0b010, appendTo)
	w.net = nil
	first.d.pend, first.d.jpend = nil, nil
	w.crash(first, true)
	w.restart(first)
	w.learn(first)
	w.among(0b101)
	if first.phase == leading {
		w.add(first)
	}
	w.among(0b101)
	w.checkLogs()
}
