package partition

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// UUID is a 128-bit identity in RFC 4122 byte order.
type UUID [16]byte

// ParseUUID reads the usual hexadecimal form with dashes.
func ParseUUID(s string) (UUID, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return UUID{}, fmt.Errorf("parse uuid %q: %w", s, err)
	}
	return UUID(u), nil
}

// UUIDOf joins the two big-endian halves.
func UUIDOf(hi, lo uint64) UUID {
	var u UUID
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	return u
}

// Halves gives the big-endian halves, as on the wire.
func (u UUID) Halves() (hi, lo uint64) {
	return binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
}

// IsZero tells whether it is unset.
func (u UUID) IsZero() bool { return u == UUID{} }

// String gives the usual hexadecimal form with dashes.
func (u UUID) String() string { return uuid.UUID(u).String() }

// MarshalText implements encoding.TextMarshaler.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *UUID) UnmarshalText(text []byte) error {
	parsed, err := ParseUUID(string(text))
	if err != nil {
		return err
	}
	*u = parsed
	return nil
}

// Index numbers the partitions of a topic from 0.
type Index uint32

// ID names a partition.
type ID struct {
	Topic UUID
	Index Index
}

// String gives "<topic uuid>/<index>".
func (id ID) String() string {
	return id.Topic.String() + "/" + strconv.FormatUint(uint64(id.Index), 10)
}

// Offset is a record's place in its partition.
type Offset uint64

// Epoch numbers the leaderships of a partition from 1; 0 = none yet.
type Epoch uint64

// NodeID names a broker, 1 and up; 0 = none.
type NodeID uint64

// Incarnation numbers the lives of a process, 1 and up.
type Incarnation uint64

// Member is a replica in a member set.
type Member struct {
	Broker  NodeID `json:"broker"`
	Replica UUID   `json:"replica"`
}
