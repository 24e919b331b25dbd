package batch

import "encoding/binary"

// The low two bits of a pointer.
const (
	structPointer = 0
	listPointer   = 1
)

// elementSize is the code of a list's element size.
type elementSize uint8

const (
	byteElements      elementSize = 2
	fourByteElements  elementSize = 4
	eightByteElements elementSize = 5
)

func (e elementSize) bytes() int {
	switch e {
	case fourByteElements:
		return 4
	case eightByteElements:
		return 8
	default:
		return 1
	}
}

// putList writes a list pointer at p[at:] to a list that begins at p[target:].
func putList(p []byte, at, target int, size elementSize, count int) {
	words := uint32(int32((target - at - pointerBytes) / 8))
	binary.LittleEndian.PutUint64(p[at:], uint64(words<<2|listPointer)|uint64(size)<<32|uint64(count)<<35)
}

// appendList appends a list whose bytes are ready and writes its pointer at out[at:].
func appendList(out []byte, at int, size elementSize, count int, list []byte) []byte {
	target := len(out)
	out = append(out, list...)
	putList(out, at, target, size, count)
	return padded(out, target)
}

// appendBytes leaves the pointer null where there are no bytes.
func appendBytes(out []byte, at int, data []byte) []byte {
	if len(data) == 0 {
		return out
	}
	return appendList(out, at, byteElements, len(data), data)
}

// appendNulls writes a bitmap of n bits; the pointer stays null where no bit is set.
func appendNulls(out []byte, at int, nulls []byte, n int) []byte {
	if len(nulls) == 0 {
		return out
	}
	target, size := len(out), (n+7)/8
	out = append(out, nulls...)
	for len(out) < target+size {
		out = append(out, 0)
	}
	putList(out, at, target, byteElements, size)
	return padded(out, target)
}

// padded appends zeros up to the next word after what began at target.
func padded(out []byte, target int) []byte {
	for (len(out)-target)%8 != 0 {
		out = append(out, 0)
	}
	return out
}

// segment is the bytes that pointers point into.
type segment []byte

// target gives the byte that the pointer at byte `at` with these low 32 bits points to. It may lie outside.
func target(at int, low uint32) int { return at + pointerBytes + 8*int(int32(low)>>2) }

// list reads the list pointer at byte `at`: its bytes without padding, nil for a null pointer.
func (s segment) list(at int, size elementSize) ([]byte, error) {
	word := binary.LittleEndian.Uint64(s[at:])
	if word == 0 {
		return nil, nil
	}
	if word&3 != listPointer {
		return nil, corrupt("pointer at %d is no near list pointer: %#x", at, word)
	}
	if got := elementSize(word >> 32 & 7); got != size {
		return nil, corrupt("list at %d has elements of size code %d, not %d", at, got, size)
	}
	from, length := target(at, uint32(word)), int(word>>35)*size.bytes()
	if from < 0 || from > len(s) || pad(length) > len(s)-from {
		return nil, corrupt("list at %d leaves the segment", at)
	}
	return s[from : from+length : from+length], nil
}

// pointers reads the struct pointer at byte `at` to a struct without data: where its pointer section is and how many there are.
func (s segment) pointers(at int) (from, count int, err error) {
	word := binary.LittleEndian.Uint64(s[at:])
	if word == 0 || word&3 != structPointer {
		return 0, 0, corrupt("pointer at %d is no near struct pointer: %#x", at, word)
	}
	from, count = target(at, uint32(word)), int(word>>48)
	if words := uint16(word >> 32); words != 0 || count > recordPointers {
		return 0, 0, corrupt("struct at %d has %d words and %d pointers", at, words, count)
	}
	if from < 0 || from > len(s) || count*pointerBytes > len(s)-from {
		return 0, 0, corrupt("struct at %d leaves the segment", at)
	}
	return from, count, nil
}
