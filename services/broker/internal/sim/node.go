package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// node is a machine: a disk, a clock, and the process that runs on it.
type node struct {
	w          *World
	id         partition.NodeID
	rng        *rand.Rand
	clock      nodeClock
	mem        *memfs.FS
	formatted  bool                    // the disk has a journal
	weak       bool                    // its media may fail
	rotten     bool                    // they did: damage is not held against it
	ruined     error                   // it cannot start any more
	stopped    bool                    // it is not to start again
	fuseAtBoot int                     // directed scenarios: the next process dies in this change of its disk
	lost       bool                    // its disk was replaced
	damaged    map[partition.UUID]bool // replicas that say that they have damage
	made       map[partition.UUID]bool // replicas that were made on this disk, and may have promised something
	slow       int64                   // everything takes so many times longer
	pausedTo   time.Duration
	etcdCut    bool
	p          *process // nil: down
}

// process is one life of a broker.
type process struct {
	n           *node
	incarnation partition.Incarnation
	unreadable  bool // reads have failed, or will
	dead        bool
	dying       error
	fs          vfs.FS
	faults      *faultfs.FS
	fuse        int // changes to the disk until the end; 0 = none
	fusePower   bool
	journal     *journal.Journal
	pool        *workers.Pool
	commit      *commit.Committer
	files       *segment.Files
	held        []*held
	tasks       []*task
	working     int // events planned that do a job
	committing  bool
	stepping    bool
	known       []int64 // revision of each partition's assignment
}

// held is a replica that was opened here.
type held struct {
	part    *part
	id      partition.UUID
	r       *replica.Replica // nil: it could not be opened
	failed  error
	busy    bool
	hw      partition.Offset // seen; never falls
	checked partition.Offset // read and compared up to here
	active  bool
}

// brief is the time of something quick.
func (n *node) brief() time.Duration {
	return time.Duration(1+n.rng.Int64N(int64(n.w.knobs.step))) * time.Duration(n.slow)
}

func (n *node) diskTime() time.Duration {
	return time.Duration(1+n.rng.Int64N(int64(n.w.knobs.disk))) * time.Duration(n.slow)
}

// after plans something in this life of the process. A machine that is paused does it when it goes on.
func (p *process) after(kind string, wait time.Duration, do func()) {
	w := p.n.w
	var run func()
	run = func() {
		switch {
		case p.dead:
		case p.n.pausedTo > w.now:
			w.agenda.push(p.n.pausedTo+p.n.brief(), run)
		case w.hold != nil && w.hold(kind, p.n):
			w.agenda.push(w.now+time.Millisecond, run)
		default:
			w.note(kind, p.n)
			p.guard(do)
		}
	}
	w.agenda.push(w.now+wait, run)
}

// guard runs what a process does. What it leaves to be done is planned; what it did is checked.
func (p *process) guard(do func()) {
	if p.dead {
		return
	}
	w := p.n.w
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
		case violation:
			panic(r)
		default:
			w.fail("panic on node %d: %v\n%s", p.n.id, r, debug.Stack())
		}
	}()
	do()
	if p.dead {
		return
	}
	p.settle()
	if p.dying != nil && !p.dead {
		w.stats.add("process gave up: " + kindOf(p.dying))
		w.logf("node %d gives up: %v", p.n.id, p.dying)
		p.n.end(false)
		p.n.restartSoon()
		return
	}
	if !p.dead {
		w.check(p)
	}
}

func kindOf(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Kind.String()
	}
	return "other"
}

// settle runs or plans what has become due in the process.
func (p *process) settle() {
	for more := true; more && !p.dead; {
		more = false
		p.poll()
		for _, h := range p.held {
			if h.r == nil || !h.r.Due() {
				continue
			}
			if p.n.rng.IntN(4) > 0 {
				h.r.Step()
				more = true
			} else if !p.stepping {
				p.stepping = true
				p.after("step", p.n.brief(), func() {
					p.stepping = false
					for _, h := range p.held {
						if h.r != nil {
							h.r.Step()
						}
					}
				})
			}
		}
	}
	if p.dead || p.commit == nil {
		return
	}
	for p.working < min(3, p.pool.Waiting()) {
		p.working++
		p.after("work", p.n.diskTime(), func() {
			p.working--
			if n := p.pool.Waiting(); n > 0 {
				p.pool.Step(p.n.rng.IntN(min(n, 3)))
			}
		})
	}
	if p.commit.Due() && !p.committing {
		p.committing = true
		p.after("commit", p.n.diskTime(), func() {
			p.committing = false
			p.commit.Step()
		})
	}
}

// boot starts a process, once etcd gives it an incarnation.
func (n *node) boot() {
	if n.p != nil || n.stopped || n.ruined != nil {
		return
	}
	if !n.w.etcd.reachable(n) {
		n.w.agenda.push(n.w.now+100*time.Millisecond, n.boot)
		return
	}
	p := &process{n: n, incarnation: n.w.etcd.incarnate(n), known: make([]int64, len(n.w.parts))}
	n.p = p
	n.w.stats.add("boots")
	n.w.logf("node %d boots, incarnation %d", n.id, p.incarnation)
	if n.w.knobs.faults.bootCrash > 0 && n.rng.IntN(100) < n.w.knobs.faults.bootCrash {
		p.fuse, p.fusePower = 1+n.rng.IntN(40), n.rng.IntN(2) == 0
	}
	if n.fuseAtBoot > 0 {
		p.fuse, p.fusePower = n.fuseAtBoot, true
	}
	p.guard(func() {
		if err := p.open(); err != nil {
			p.openFailed("boot", err)
			return
		}
		p.tick()
		p.keepMarks()
		for _, pt := range n.w.parts {
			n.w.etcd.tell(p, pt, n.brief())
		}
	})
}

// openFailed takes in why a process or a replica cannot start.
func (p *process) openFailed(what string, err error) {
	n := p.n
	switch {
	case fault.Is(err, fault.Corrupt) && n.rotten:
		n.w.stats.add("a rotten disk refuses to " + what)
		if what == "boot" {
			n.ruined = err
			n.end(false)
		}
	case fault.Is(err, fault.Corrupt) && p.unreadable:
		p.dying = err // somebody starts it again
	case fault.Is(err, fault.Corrupt):
		n.w.fail("node %d cannot %s: %v", n.id, what, err)
	default:
		p.dying = err
	}
}

func (p *process) open() error {
	p.fs = p.mount()
	log := p.n.w.logger(p.n)
	var err error
	p.journal, _, err = journal.Open(journal.Config{
		FS: p.fs, Dir: "journal", Create: !p.n.formatted, Log: log, Limits: journal.Limits{CheckpointBytes: 4 << 10},
	})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	p.n.formatted = true
	if err := errors.Join(p.fs.MkdirAll("replicas"), p.fs.SyncDir(".")); err != nil {
		return fault.Errorf(fault.DiskPoisoned, "make directory: %w", err)
	}
	if err := commit.Replay(p.fs, p.journal, install.Logs(p.fs, dirOf), log); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	p.pool, p.files = workers.ByHand(), segment.NewFiles(p.fs, 16)
	p.commit, err = commit.ByHand(commit.Config{
		Journal: p.journal, Workers: p.pool, Mode: p.n.w.knobs.redo, Log: log, Metrics: prometheus.NewRegistry(),
		Limits: commit.Limits{RingBytes: journal.MinRingBytes, SmallBytes: 4 << 10}, Failed: p.diskFailed,
	})
	return err
}

func dirOf(id partition.UUID) string { return "replicas/" + id.String() }

func (p *process) diskFailed(err error) {
	if p.dying == nil {
		p.dying = err
	}
}

// tick lets time pass for the replicas, as the roster does.
func (p *process) tick() {
	p.after("tick", 50*time.Millisecond, func() {
		for _, h := range p.held {
			if h.r != nil {
				h.r.Tick()
			}
		}
		p.tick()
	})
}

// keepMarks writes the evidence of the replicas, as the roster does.
func (p *process) keepMarks() {
	p.after("marks", p.n.w.knobs.marks, func() {
		p.keepMarks()
		for _, h := range p.held {
			if h.r == nil || h.failed != nil {
				continue
			}
			records, _ := h.r.Evidence()
			if err := p.journal.Put(records...); err != nil && !fault.Is(err, fault.DiskFull) {
				p.diskFailed(err)
				return
			}
		}
		if err := p.journal.Sync(); err != nil && !fault.Is(err, fault.DiskFull) {
			p.diskFailed(err)
		}
	})
}

// end is the end of the process: killed, or by a power cut that takes with it what was not synced.
func (n *node) end(power bool) {
	if power {
		n.mem = n.mem.Crash(n.rng)
	}
	if p := n.p; p != nil {
		n.w.logf("node %d ends, power cut %v", n.id, power)
		n.p, p.dead = nil, true
		for _, t := range p.tasks {
			t.stop()
		}
		p.tasks = nil
	}
}

func (n *node) restartSoon() {
	n.w.agenda.push(n.w.now+time.Duration(n.rng.Int64N(int64(n.w.knobs.restart))), n.boot)
}
