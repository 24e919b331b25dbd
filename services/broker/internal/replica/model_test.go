package replica

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/commit"
)

var (
	modelSeed = flag.Uint64("seed", 1, "seed of TestAgainstAList")
	modelOps  = flag.Int("ops", 10_000, "operations of TestAgainstAList")
)

// model is a list of what must be in the log.
type model struct {
	*rig
	rng      *rand.Rand
	acked    map[partition.Offset]string
	unknown  map[string]bool // values whose outcome a crash left open
	next     int             // of the values
	sequence map[uint64]uint64
	retry    map[uint64]string // a producer's batch whose outcome is open, to be sent again
	logStart partition.Offset
	counts   map[string]int
	last     []string // operations
}

// TestAgainstAList does thousands of random operations, crashes and power cuts among them, and compares the log with a list.
func TestAgainstAList(t *testing.T) {
	for _, redo := range []commit.Mode{commit.Auto, commit.Always} {
		t.Run(redo.String(), func(t *testing.T) { againstAList(t, redo) })
	}
}

func againstAList(t *testing.T, redo commit.Mode) {
	t.Logf("seed %d", *modelSeed)
	m := &model{
		rng: rand.New(rand.NewPCG(*modelSeed, 1)), acked: map[partition.Offset]string{}, unknown: map[string]bool{},
		sequence: map[uint64]uint64{}, retry: map[uint64]string{}, counts: map[string]int{},
	}
	m.rig = newRig(t, func(g *rig) { g.topic.SegmentBytes, g.redo = 16<<10, redo }).start()
	for i := range *modelOps {
		m.step()
		if t.Failed() {
			t.Fatalf("after operation %d: %v, state %+v", i, m.last, m.r.State())
		}
	}
	m.check()
	t.Logf("%v, %d acknowledged, %d open", m.counts, len(m.acked), len(m.unknown))
	for _, op := range []string{"publish", "retry", "group", "seal", "tier", "trim", "local trim", "power", "kill", "tick", "check"} {
		if m.counts[op] == 0 && *modelOps >= 10_000 {
			t.Errorf("no %s happened", op)
		}
	}
}

func (m *model) did(op string) {
	m.counts[op]++
	m.last = append(m.last[max(0, len(m.last)-9):], op)
}

func (m *model) step() {
	switch x := m.rng.IntN(1000); {
	case x < 500:
		m.publishOne()
	case x < 700:
		m.publishGroup(false)
	case x < 800:
		m.resend()
	case x < 830:
		m.did("seal")
		m.seal()
	case x < 870:
		m.did("tier")
		m.tier()
	case x < 890:
		m.did("local trim")
		if _, err := m.r.Trim(m.t.Context(), 0, true); err != nil {
			m.t.Error(err)
		}
	case x < 893:
		m.trim()
	case x < 940:
		m.did("tick")
		m.tick(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
	case x < 975:
		m.check()
	default:
		m.crashNow()
	}
}

func (m *model) value() string {
	m.next++
	return fmt.Sprintf("v%d-%s", m.next, string(make([]byte, m.rng.IntN(300))))
}

// publishOne sends a batch, for a producer or not, and waits.
func (m *model) publishOne() {
	m.did("publish")
	pid := uint64(m.rng.IntN(4))
	value, known := m.retry[pid]
	if !known {
		value = m.value()
	}
	p, err := m.sendWait(Publish{Msg: m.message(pid, value)})
	if err != nil {
		m.t.Errorf("publish of producer %d: %v", pid, err)
		return
	}
	m.settle(pid, value, p)
}

func (m *model) message(pid uint64, value string) []byte {
	return message(batch.BuildOptions{ProducerID: pid, BaseSequence: m.sequence[pid]}, value)
}

// settle takes in that a value is acknowledged.
func (m *model) settle(pid uint64, value string, p Published) {
	delete(m.retry, pid)
	delete(m.unknown, value)
	if pid != 0 {
		m.sequence[pid]++
	}
	if was, ok := m.acked[p.BaseOffset]; ok && was != value {
		m.t.Errorf("offset %d was given to %q and to %q", p.BaseOffset, was[:4], value[:4])
	}
	m.acked[p.BaseOffset] = value
}

// resend sends another batch under a producer's last sequence: it must be found out.
func (m *model) resend() {
	m.did("retry")
	pid := uint64(1 + m.rng.IntN(3))
	if m.sequence[pid] == 0 || m.retry[pid] != "" {
		return
	}
	m.sequence[pid]--
	p, err := m.sendWait(Publish{Msg: message(batch.BuildOptions{ProducerID: pid, BaseSequence: m.sequence[pid]}, "not what was sent")})
	m.sequence[pid]++
	if !fault.Is(err, fault.SequenceReused) {
		m.t.Errorf("another batch under an old sequence of producer %d: %+v %v", pid, p, err)
	}
}

// publishGroup sends several at once; with abandon it does not wait for the answers.
func (m *model) publishGroup(abandon bool) {
	m.did("group")
	type sent struct {
		value  string
		answer <-chan result
	}
	var all []sent
	for range 1 + m.rng.IntN(8) {
		value := m.value()
		all = append(all, sent{value, m.send(Publish{Msg: message(batch.BuildOptions{}, value)})})
	}
	for _, s := range all {
		if abandon {
			m.unknown[s.value] = true
			continue
		}
		r := <-s.answer
		if r.err != nil {
			m.t.Errorf("publish: %v", r.err)
			continue
		}
		m.settle(0, s.value, r.Published)
	}
}

// crashNow ends the life, perhaps with batches under way, and starts the next.
func (m *model) crashNow() {
	if m.rng.IntN(2) == 0 {
		m.publishGroup(true)
	}
	if pid := uint64(1 + m.rng.IntN(3)); m.retry[pid] == "" && m.rng.IntN(2) == 0 {
		value := m.value()
		m.retry[pid], m.unknown[value] = value, true
		m.send(Publish{Msg: m.message(pid, value)})
	}
	switch m.rng.IntN(3) {
	case 0:
		m.did("kill")
		m.crashAll()
	case 1:
		m.did("power")
		m.mem = survive(m.rig, m.mem.CrashNone())
	default:
		m.did("power")
		m.crash(m.rng)
	}
	m.start()
	m.check()
}

func (m *model) trim() {
	m.did("trim")
	hw := m.r.State().HighWatermark
	to := m.logStart + partition.Offset(m.rng.IntN(int(hw-m.logStart)+1))
	if m.rng.IntN(4) > 0 {
		to = min(to, m.logStart+20)
	}
	r, err := m.r.Trim(m.t.Context(), to, false)
	if err != nil {
		m.t.Error(err)
		return
	}
	m.logStart = max(m.logStart, to)
	if r.LogStart != m.logStart {
		m.t.Errorf("trimmed to %d, want %d", r.LogStart, m.logStart)
	}
}

// check reads everything that is local and compares.
func (m *model) check() {
	m.did("check")
	s := m.r.State()
	if s.LogStart != m.logStart {
		m.t.Errorf("the log starts at %d, want %d", s.LogStart, m.logStart)
	}
	from := max(s.LogStart, s.LocalStart)
	got := m.read(from)
	there := map[partition.Offset]string{}
	seen := map[string]bool{}
	for _, r := range got {
		at := partition.Offset(r.Offset)
		there[at] = r.Value
		if seen[r.Value] {
			m.t.Errorf("%q is there twice", r.Value[:4])
		}
		seen[r.Value] = true
		if m.acked[at] != r.Value && !m.unknown[r.Value] {
			m.t.Errorf("offset %d holds %q, which nobody has sent so", at, r.Value[:4])
		}
	}
	for at, value := range m.acked {
		if at >= from && there[at] != value {
			m.t.Errorf("offset %d lost %q, read %d from %d on", at, value[:4], len(got), from)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b record) int { return int(a.Offset) - int(b.Offset) }) {
		m.t.Error("records are not in order")
	}
}

// moment is what a crash at one call of the file system leaves, and what was acknowledged by then.
type moment struct {
	call     faultfs.Call
	fs       *memfs.FS
	register *register
	acked    []string
}

// TestKilledAtEveryCall takes the power away at every call that the first life makes to its disk: promise, epoch start, activation, batches,
// cut, seal. Each time the next life has what was acknowledged, and goes on.
func TestKilledAtEveryCall(t *testing.T) {
	for _, redo := range []commit.Mode{commit.Auto, commit.Always} {
		t.Run(redo.String(), func(t *testing.T) { killedAtEveryCall(t, redo) })
	}
}

func killedAtEveryCall(t *testing.T, redo commit.Mode) {
	var moments []moment
	var acked atomic.Pointer[[]string] // before the disk is copied: what is acknowledged later need not be on the copy
	acked.Store(&[]string{})
	rng := rand.New(rand.NewPCG(7, 7))
	g := newRig(t, func(g *rig) { g.redo = redo })
	g.wrap = func(mem *memfs.FS) vfs.FS {
		disk := faultfs.New(mem, g.clock)
		disk.Observe(func(c faultfs.Call) {
			before := *acked.Load()
			g.register.mu.Lock()
			copied := &register{}
			copied.mu.value, copied.mu.revision = g.register.mu.value, g.register.mu.revision
			g.register.mu.Unlock()
			for _, fs := range []*memfs.FS{mem.CrashNone(), mem.CrashAll(), mem.Crash(rng)} {
				moments = append(moments, moment{c, fs, copied, before})
			}
		})
		return disk
	}
	g.start()
	for i := range 4 {
		value := fmt.Sprintf("value %d", i)
		g.mustPublish(value)
		quiet(g) // what is called from now on is called after the ack
		now := append(slices.Clone(*acked.Load()), value)
		acked.Store(&now)
		if i%2 == 1 {
			g.seal()
		}
	}
	quiet(g)
	g.kill()
	t.Logf("%d moments", len(moments))
	for i, m := range moments {
		next := newRig(t)
		next.mem, next.register, next.incarnation = m.fs, m.register, 1
		next.start()
		got := valuesOf(next.read(0))
		if len(got) < len(m.acked) || !slices.Equal(got[:len(m.acked)], m.acked) {
			t.Fatalf("moment %d (%+v): acknowledged %v, found %v", i, m.call, m.acked, got)
		}
		next.mustPublish("after")
		if s := next.seal(); s.SealedEnd == 0 {
			t.Fatalf("moment %d (%+v): cannot seal: %+v", i, m.call, s)
		}
		next.kill()
	}
}

// quiet waits until the workers have nothing to do for the replica.
func quiet(g *rig) {
	for {
		idle, err := ask(context.Background(), g.r, false, func(answer func(bool, error)) { answer(g.r.io.Idle(), nil) })
		if err != nil || idle {
			return
		}
	}
}
