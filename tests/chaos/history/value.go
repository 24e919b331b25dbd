package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// ID names a record: the session that wrote it, and which of its records it was.
type ID struct{ Session, Number int }

// String gives "session.number".
func (id ID) String() string { return fmt.Sprintf("%d.%d", id.Session, id.Number) }

// Value gives the value of a record; it has size bytes, or what the header "session.number.size\n" needs where that is more.
func Value(id ID, size int) []byte {
	out := make([]byte, 0, size)
	out = fmt.Appendf(out, "%d.%d.%d\n", id.Session, id.Number, size)
	if len(out) >= size {
		return out
	}
	head := len(out)
	out = out[:size]
	var seed [32]byte
	copy(seed[:], out[:head])
	_, _ = rand.NewChaCha8(seed).Read(out[head:]) // never fails
	return out
}

// Parse gives the ID of a value, or says why no record can have it.
func Parse(value []byte) (ID, error) {
	head, _, ok := bytes.Cut(value[:min(len(value), 64)], []byte("\n"))
	parts := bytes.Split(head, []byte("."))
	if !ok || len(parts) != 3 {
		return ID{}, fmt.Errorf("parse value: no header in %.40q of %d bytes", value, len(value))
	}
	var n [3]int
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(string(part)); err != nil {
			return ID{}, fmt.Errorf("parse value: header %q: %w", head, err)
		}
	}
	const most = 16 << 20
	id := ID{n[0], n[1]}
	if n[2] < 0 || n[2] > most || !bytes.Equal(value, Value(id, n[2])) {
		return id, fmt.Errorf("parse value: the bytes of %q are not those that were written", head)
	}
	return id, nil
}
