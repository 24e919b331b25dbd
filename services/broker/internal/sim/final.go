package sim

import (
	"crypto/sha256"
	"fmt"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// converged reads everything again from every replica that is open, and compares the sealed files: they are the same, byte by byte.
func (w *World) converged() {
	type file struct {
		part int
		base partition.Offset
	}
	sealed := map[file]string{}
	for _, n := range w.nodes {
		if n.p == nil {
			continue
		}
		for _, h := range n.p.held {
			if h.r == nil || h.failed != nil {
				continue
			}
			h.checked = 0
			w.expose(n.p, h, h.r.State())
			if n.rotten {
				continue
			}
			dir, segments := h.r.OnDisk()
			for _, s := range segments {
				sum, err := digest(n, dir+"/"+segment.Name(s.Base, segment.LogPart), s.Size)
				if err != nil {
					w.fail("node %d cannot read sealed segment %d: %v", n.id, s.Base, err)
				}
				id := file{h.part.index, s.Base}
				if other, ok := sealed[id]; ok && other != sum {
					w.fail("sealed segment %d of partition %d differs: %s, %s on node %d", s.Base, h.part.index, other, sum, n.id)
				}
				sealed[id] = sum
				w.stats.add("sealed files compared")
			}
		}
	}
}

func digest(n *node, name string, size int64) (string, error) {
	f, err := n.mem.Open(name, vfs.Flag(0))
	if err != nil {
		return "", fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	return fmt.Sprintf("%d bytes %x", size, sha256.Sum256(data)), nil
}
