package sim

import (
	"math/rand/v2"
	"syscall"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// mount gives a process its machine's disk, with the faults that are in force.
func (p *process) mount() vfs.FS {
	p.faults = faultfs.New(p.n.mem, &p.n.clock)
	return gate{p, p.faults}
}

// failSync makes the process's next sync, of a log or of the journal, fail once.
func (p *process) failSync(rng *rand.Rand) {
	path := ""
	if rng.IntN(3) == 0 {
		path = "*.log"
	}
	p.faults.Add(faultfs.Rule{Ops: faultfs.Sync, Path: path, First: 1 + rng.IntN(3), Count: 1, Err: syscall.EIO})
}

// failNextSync makes the next sync of a log on a machine fail.
func (p *process) failNextSync() {
	p.faults.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Count: 1, Err: syscall.EIO})
}

// rot damages a byte of a log that is proven to be durable by what the journal holds durably, and gives false if there is none. What rots before
// a mark proves it, at the moment of a crash, is the residual risk that the fault model states.
func (n *node) rot(rng *rand.Rand) bool {
	reading, err := journal.Inspect(n.mem.CrashNone(), "journal", nil)
	if err != nil {
		return false
	}
	type span struct {
		name string
		size int64
	}
	var found []span
	for _, id := range n.replicas() {
		mark := reading.State.Replicas[id].Mark
		log := install.Logs(n.mem, dirOf)(id)
		names, err := n.mem.List(log)
		if err != nil {
			continue
		}
		for _, name := range names {
			base, part, ok := segment.ParseName(name)
			info, err := n.mem.Stat(log + "/" + name)
			switch size := info.Size; {
			case !ok || part != segment.LogPart || err != nil || base > mark.Base || pool.IsRecycled(size):
			case base == mark.Base && mark.Position > 0:
				found = append(found, span{log + "/" + name, min(size, mark.Position)})
			case base < mark.Base && size > 0:
				found = append(found, span{log + "/" + name, size})
			}
		}
	}
	if len(found) == 0 {
		return false
	}
	at := found[rng.IntN(len(found))]
	return n.flip(at.name, rng.Int64N(at.size), byte(1)<<rng.IntN(8))
}

// replicas lists those that have a directory here, in order.
func (n *node) replicas() []partition.UUID {
	names, err := n.mem.List("replicas")
	if err != nil {
		return nil
	}
	var all []partition.UUID
	for _, name := range names {
		if id, err := partition.ParseUUID(name); err == nil {
			all = append(all, id)
		}
	}
	return all
}

// flip changes bits on the medium.
func (n *node) flip(name string, at int64, bits byte) bool {
	file, err := n.mem.Open(name, vfs.Write)
	if err != nil {
		return false
	}
	defer file.Close()
	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		return false
	}
	b[0] ^= bits
	_, err = file.WriteAt(b[:], at)
	return err == nil && file.Datasync() == nil
}

func newMem(c *nodeClock) *memfs.FS { return memfs.New(memfs.Clock(c)) }
