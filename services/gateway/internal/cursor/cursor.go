package cursor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

const (
	// PositionsMax is how many partitions one cursor may cover.
	PositionsMax = 512
	// TextMax bounds the text of a cursor.
	TextMax = 16 << 10

	version  = 1
	macBytes = 16
	idBytes  = 16
)

// Position is the next record to read of one partition.
type Position struct {
	Partition partition.Index
	Offset    partition.Offset
	Epoch     partition.Epoch // the highest seen, 0 = none
}

// Cursor is a set of positions in one topic, by partition.
type Cursor struct {
	Topic     partition.UUID
	First     int // the position to serve first, so that a small answer does not starve the last partition
	Positions []Position
}

// Clone gives a copy whose positions may be moved.
func (c Cursor) Clone() Cursor {
	c.Positions = slices.Clone(c.Positions)
	return c
}

// At finds the position of a partition; nil if the cursor does not cover it.
func (c Cursor) At(index partition.Index) *Position {
	i, ok := slices.BinarySearchFunc(c.Positions, index, func(p Position, i partition.Index) int { return int(p.Partition) - int(i) })
	if !ok {
		return nil
	}
	return &c.Positions[i]
}

// Sealer writes and reads the cursors of one cluster.
type Sealer struct{ key [sha256.Size]byte }

// NewSealer derives the cluster's key.
func NewSealer(cluster partition.UUID) Sealer {
	mac := hmac.New(sha256.New, cluster[:])
	mac.Write([]byte("sq cursor 1"))
	var s Sealer
	mac.Sum(s.key[:0])
	return s
}

func (s Sealer) mac(data []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(data)
	return mac.Sum(nil)[:macBytes]
}

// Seal gives the cursor's text. The positions must be by partition and at most PositionsMax.
func (s Sealer) Seal(c Cursor) string {
	data := make([]byte, 0, 32+8*len(c.Positions)+macBytes)
	data = append(data, version)
	data = append(data, c.Topic[:]...)
	data = binary.AppendUvarint(data, uint64(c.First))
	data = binary.AppendUvarint(data, uint64(len(c.Positions)))
	before := partition.Index(0)
	for _, p := range c.Positions {
		data = binary.AppendUvarint(data, uint64(p.Partition-before))
		data = binary.AppendUvarint(data, uint64(p.Offset))
		data = binary.AppendUvarint(data, uint64(p.Epoch))
		before = p.Partition
	}
	data = append(data, s.mac(data)...)
	return base64.RawURLEncoding.EncodeToString(data)
}

// Open reads a cursor's text. The error is fault.Invalid.
func (s Sealer) Open(text string) (Cursor, error) {
	if len(text) > TextMax {
		return Cursor{}, invalid("it is longer than a cursor can be")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < 1+idBytes+macBytes || strings.ContainsAny(text, "\r\n") { // the decoder skips line ends
		return Cursor{}, invalid("it is cut or is no cursor")
	}
	data, mac := data[:len(data)-macBytes], data[len(data)-macBytes:]
	if !hmac.Equal(mac, s.mac(data)) {
		return Cursor{}, invalid("it was changed or belongs to another cluster")
	}
	if data[0] != version {
		return Cursor{}, invalid("a newer release wrote it")
	}
	return decode(data[1:])
}

// decode reads what carried a right MAC; it checks all the same.
func decode(data []byte) (Cursor, error) {
	c := Cursor{Topic: partition.UUID(data[:idBytes])}
	rest := numbers{data: data[idBytes:]}
	first := rest.next(math.MaxInt32)
	count := rest.next(PositionsMax)
	if rest.bad || count > uint64(len(rest.data)) || first > 0 && first >= count {
		return Cursor{}, invalid("its counts are wrong")
	}
	c.First = int(first)
	c.Positions = make([]Position, 0, count)
	index := uint64(0)
	for i := range count {
		distance := rest.next(math.MaxInt32)
		offset, epoch := rest.next(math.MaxInt64), rest.next(math.MaxUint64)
		index += distance
		if rest.bad || index > math.MaxInt32 || i > 0 && distance == 0 {
			return Cursor{}, invalid("its positions are wrong")
		}
		c.Positions = append(c.Positions, Position{partition.Index(index), partition.Offset(offset), partition.Epoch(epoch)})
	}
	if len(rest.data) != 0 {
		return Cursor{}, invalid("something follows its positions")
	}
	return c, nil
}

// numbers reads uvarints until one is bad.
type numbers struct {
	data []byte
	bad  bool
}

func (n *numbers) next(most uint64) uint64 {
	v, size := binary.Uvarint(n.data)
	if size <= 0 || v > most {
		n.bad = true
		return 0
	}
	n.data = n.data[size:]
	return v
}

func invalid(why string) error {
	return fault.Errorf(fault.Invalid, "read cursor: %s; start anew with from", why)
}
