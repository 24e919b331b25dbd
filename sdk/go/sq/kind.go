package sq

import (
	"fmt"

	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Kind says what went wrong in a way that a program can act on. The set is closed; the numbers are those of the wire.
type Kind uint16

// The kinds.
const (
	KindInternal Kind = iota
	KindInvalid
	KindNotFound
	KindExists
	KindConflict
	KindNotLeader
	KindStaleEpoch
	KindStaleRouting
	KindOffsetTiered
	KindOffsetTrimmed
	KindOffsetOutOfRange
	KindTooLarge
	KindOverloaded
	KindUnavailable
	KindOutcomeUnknown
	KindDeadlineExceeded
	KindCanceled
	KindUnauthenticated
	KindDenied
	KindUnsupportedVersion
	KindCorrupt
	KindDiskFull
	KindDiskPoisoned
	KindSequenceReused
	KindOutOfOrder
	KindUnknownProducer
	KindDiverged
	KindWrongCluster
	KindDataDirInUse

	kinds // how many there are
)

// kindNames has a word for every kind, by number.
//
//nolint:gochecknoglobals // a constant table: Go has no constant arrays.
var kindNames = [kinds]string{
	"internal", "invalid", "not-found", "exists", "conflict", "not-leader", "stale-epoch", "stale-routing", "offset-tiered",
	"offset-trimmed", "offset-out-of-range", "too-large", "overloaded", "unavailable", "outcome-unknown", "deadline-exceeded",
	"canceled", "unauthenticated", "denied", "unsupported-version", "corrupt", "disk-full", "disk-poisoned", "sequence-reused",
	"out-of-order", "unknown-producer", "diverged", "wrong-cluster", "data-dir-in-use",
}

// String gives the kind's name: "offset-trimmed".
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind-%d", uint16(k))
	}
	return kindNames[k]
}

// Retryable tells whether the same call may succeed later or elsewhere, with nothing done so far. A client has then tried until its
// context ended.
func (k Kind) Retryable() bool {
	return fault.Retryable(fault.Kind(k))
}
