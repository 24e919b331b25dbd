package harvest

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Owner gives the id of the live tierer that a partition belongs to; "" where none lives. It is the one that gateways ask first for cold
// reads: both hash the topic's bytes, the index as u32 big-endian, "/" and the id by xxhash64 and take the highest.
func Owner(view *topology.View, id partition.ID) string {
	key := append(make([]byte, 0, 20), id.Topic[:]...)
	key = binary.BigEndian.AppendUint32(key, uint32(id.Index))
	owner, highest := "", uint64(0)
	var digest xxhash.Digest
	for _, live := range view.Tierers {
		digest.Reset()
		_, _ = digest.Write(key) // never fails
		_, _ = digest.WriteString("/" + live.ID)
		if weight := digest.Sum64(); owner == "" || weight > highest || (weight == highest && live.ID < owner) {
			owner, highest = live.ID, weight
		}
	}
	return owner
}
