package sim

import (
	"math/rand/v2"
	"strings"
	"syscall"

	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// mount gives a process its machine's disk, with the faults that are in force.
func (p *process) mount() vfs.FS {
	p.faults = faultfs.New(p.n.mem, &p.n.clock)
	for _, r := range p.n.rules {
		p.faults.Add(r)
	}
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

// rot damages one byte of a log's file that was durable, and gives false if there is none.
func (n *node) rot(rng *rand.Rand) bool {
	var found []string
	n.walk(".", func(name string) {
		if strings.Contains(name, "/log/") && strings.HasSuffix(name, ".log") {
			found = append(found, name)
		}
	})
	if len(found) == 0 {
		return false
	}
	name := found[rng.IntN(len(found))]
	file, err := n.mem.Open(name, vfs.Write)
	if err != nil {
		return false
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil || size == 0 {
		return false
	}
	var b [1]byte
	at := rng.Int64N(size)
	if _, err := file.ReadAt(b[:], at); err != nil {
		return false
	}
	b[0] ^= 1 << rng.IntN(8)
	_, err = file.WriteAt(b[:], at)
	return err == nil && file.Datasync() == nil
}

// walk calls f for every file below dir, in order.
func (n *node) walk(dir string, f func(name string)) {
	names, err := n.mem.List(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		name = dir + "/" + name
		if info, err := n.mem.Stat(name); err == nil && info.Dir {
			n.walk(name, f)
		} else if err == nil {
			f(name)
		}
	}
}

func newMem(c *nodeClock) *memfs.FS { return memfs.New(memfs.Clock(c)) }
