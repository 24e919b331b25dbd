package compact

import (
	"crypto/sha256"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// id stands for a key.
type id [16]byte

func idOf(key []byte) id {
	sum := sha256.Sum256(key)
	return id(sum[:len(id{})])
}

// claim says what is known of a key.
type claim struct {
	newest partition.Offset
	// left: a record of the key below newest has stayed in the log, so its tombstone must, too.
	left bool
}

// Keys knows offsets of the newest records of keys, as many as fit.
type Keys struct {
	claims map[id]claim
	max    int
	from   partition.Offset
	full   partition.Offset
	reader batch.Reader
}

// NewKeys makes Keys that take no more than about memory bytes. Keys are taken up from an offset on: a log with more of them than fit is done in
// several passes, each from where the one before was full.
func NewKeys(memory int64, from partition.Offset) *Keys {
	return &Keys{claims: map[id]claim{}, max: int(max(memory/keyCost, 1)), from: from}
}

// Len is how many keys are known.
func (k *Keys) Len() int { return len(k.claims) }

// Full is the offset of the first record whose key did not fit; 0 = all did.
func (k *Keys) Full() partition.Offset { return k.full }

// Learn takes in a batch. What cannot be decoded says nothing.
func (k *Keys) Learn(h *batch.Header, msg []byte) {
	if h.IsControl() || k.reader.Reset(msg) != nil {
		return
	}
	var rec batch.Record
	for i := range k.reader.Len() {
		k.reader.Record(i, &rec)
		if rec.Key == nil {
			continue
		}
		k.learn(idOf(rec.Key), partition.Offset(k.reader.Offset(i)))
	}
}

func (k *Keys) learn(key id, at partition.Offset) {
	c, known := k.claims[key]
	switch {
	case known && c.newest >= at:
	case known:
		k.claims[key] = claim{newest: at}
	case at < k.from:
	case len(k.claims) < k.max:
		k.claims[key] = claim{newest: at}
	case k.full == 0:
		k.full = at
	}
}

// fate is what is to become of a record.
type fate uint8

const (
	stays     fate = iota
	goes           // shadowed, or a tombstone that has done its work
	tombstone      // stays, and is to go later
)

// judge decides about a record.
func (k *Keys) judge(rec *batch.Record, at partition.Offset, dropTombstone bool) fate {
	if rec.Key == nil {
		return stays
	}
	c, known := k.claims[idOf(rec.Key)]
	switch {
	case known && at < c.newest:
		return goes
	case rec.Value != nil:
		return stays
	case known && at == c.newest && dropTombstone && !c.left:
		return goes
	default:
		return tombstone
	}
}

// leave notes that a record which should have gone stays.
func (k *Keys) leave(rec *batch.Record, at partition.Offset) {
	key := idOf(rec.Key)
	if c := k.claims[key]; at < c.newest {
		c.left = true
		k.claims[key] = c
	}
}
