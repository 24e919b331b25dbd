package batch

import (
	"errors"
	"fmt"
)

// What a reader can find wrong. Every error about bytes wraps exactly one of these.
var (
	// ErrShort: bytes are missing; more of them may make it right.
	ErrShort = errors.New("batch is cut short")
	// ErrPrefix: not the fixed prefix of a Batch (framing, root pointer), or a size outside [MinBytes, MaxBytes].
	ErrPrefix = errors.New("not the prefix of a batch")
	// ErrMagic: the prefix of some other struct.
	ErrMagic = errors.New("batch has a wrong magic")
	// ErrVersion: written by a format that this code does not know.
	ErrVersion = errors.New("batch has an unknown format version")
	// ErrCRC: the bytes are not those that were written.
	ErrCRC = errors.New("batch checksum differs")
	// ErrCorrupt: checksums are right, but what is inside breaks a rule. The writer is broken or hostile.
	ErrCorrupt = errors.New("batch breaks the format")
	// ErrInflate: the packed body does not inflate to what the header says.
	ErrInflate = errors.New("batch body does not inflate")
	// ErrKind: a control batch where records were asked for, or the other way round.
	ErrKind = errors.New("batch is of the other kind")
	// ErrFull: the record would go beyond the builder's limit and others are in it already: build, reset, add again.
	ErrFull = errors.New("batch is full")
	// ErrEmpty: a batch of records needs at least one.
	ErrEmpty = errors.New("batch has no record")
)

// TooLargeError says that something can never be part of a batch under this limit.
type TooLargeError struct {
	What  string // "key", "header key", "headers", "record", "batch"
	Size  int    // bytes; for "headers" their number
	Limit int
}

// Error gives a sentence with both numbers.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is too large: %d, the limit is %d", e.What, e.Size, e.Limit)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}
