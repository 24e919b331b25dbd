package damage

import (
	"slices"

	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// mendBytesMax bounds a damaged range that is fetched from the leader: it is held in memory. A larger one needs another replica.
const mendBytesMax = 160 << 20

// Mending collects good batches for a damaged range. The zero value has none.
type Mending struct {
	batches [][]byte
	bytes   int
}

// Add takes a piece, whose bytes it copies, and gives all of the range when it is whole; nil before, and where it is too large.
func (m *Mending) Add(e quorum.Mend) [][]byte {
	if e.First {
		m.batches, m.bytes = nil, 0
	}
	for i := range e.Entries {
		if m.bytes += e.Entries[i].Size; m.bytes > mendBytesMax {
			m.batches = nil
			return nil
		}
		m.batches = append(m.batches, slices.Clone(e.Entries[i].Msg))
	}
	if !e.Last {
		return nil
	}
	whole := m.batches
	m.batches = nil
	return whole
}
