package upstream

import (
	"sync"

	"github.com/seedqueue/sq/libs/partition"
)

// marks remembers where the local part of partitions starts, so that a cold read goes straight to a tierer. It is a cache: what is
// forgotten costs one redirect, and what is wrong is corrected by the tierer's or the broker's answer.
type marks struct {
	most int
	mu   struct {
		sync.RWMutex
		localStart map[partition.ID]partition.Offset
	}
}

func newMarks(most int) *marks {
	m := &marks{most: most}
	m.mu.localStart = map[partition.ID]partition.Offset{}
	return m
}

func (m *marks) isCold(id partition.ID, offset partition.Offset) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return offset < m.mu.localStart[id]
}

func (m *marks) set(id partition.ID, localStart partition.Offset) {
	m.mu.RLock()
	known := m.mu.localStart[id]
	m.mu.RUnlock()
	if known == localStart {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if localStart == 0 {
		delete(m.mu.localStart, id)
		return
	}
	if len(m.mu.localStart) >= m.most {
		clear(m.mu.localStart)
	}
	m.mu.localStart[id] = localStart
}
