package manifest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/libs/partition"
)

const (
	offsetDigits = 20
	epochDigits  = 10
	// keyDigestBytes is how much of the SHA-256 a segment's key has.
	keyDigestBytes = 16
	segmentSuffix  = ".seg"
)

// PartitionPrefix is what the keys of a partition's segments begin with.
func PartitionPrefix(cluster partition.UUID, id partition.ID) string {
	return fmt.Sprintf("%s/t/%s/%d/", cluster, id.Topic, id.Index)
}

// KeyIn gives the key of the segment's object.
func (s Segment) KeyIn(cluster partition.UUID, id partition.ID) string {
	if s.Key != "" {
		return s.Key
	}
	return SegmentKey(cluster, id, s)
}

// SegmentKey is the key that a segment's object gets: <cluster>/t/<topic>/<partition>/<base>-<end>-<epoch>-<digest>.seg.
func SegmentKey(cluster partition.UUID, id partition.ID, s Segment) string {
	return fmt.Sprintf("%s%0*d-%0*d-%0*d-%s%s", PartitionPrefix(cluster, id),
		offsetDigits, uint64(s.Base), offsetDigits, uint64(s.End), epochDigits, uint64(s.Epoch), hex.EncodeToString(s.SHA256[:keyDigestBytes]),
		segmentSuffix)
}

// IsSegmentKey tells whether SegmentKey gives the key for some segment of the partition.
func IsSegmentKey(cluster partition.UUID, id partition.ID, key string) bool {
	name, ours := strings.CutPrefix(key, PartitionPrefix(cluster, id))
	name, isSegment := strings.CutSuffix(name, segmentSuffix)
	parts := strings.Split(name, "-")
	if !ours || !isSegment || len(parts) != 4 {
		return false
	}
	digest, err := hex.DecodeString(parts[3])
	if err != nil || len(digest) != keyDigestBytes {
		return false
	}
	var numbers [3]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(parts[i], 10, 64); err != nil {
			return false
		}
	}
	s := Segment{Base: partition.Offset(numbers[0]), End: partition.Offset(numbers[1]), Epoch: partition.Epoch(numbers[2])}
	copy(s.SHA256[:], digest)
	return SegmentKey(cluster, id, s) == key
}

// Prefix is what the keys of a cluster's manifests begin with.
func Prefix(cluster partition.UUID) string { return cluster.String() + "/manifest/" }

// Key is the key of a manifest: <cluster>/manifest/<sequence>. Keys sort as sequences do.
func Key(cluster partition.UUID, sequence uint64) string {
	return fmt.Sprintf("%s%0*d", Prefix(cluster), offsetDigits, sequence)
}

// ParseKey gives the sequence of a manifest's key; false for every key that Key does not give.
func ParseKey(cluster partition.UUID, key string) (sequence uint64, ok bool) {
	digits, ok := strings.CutPrefix(key, Prefix(cluster))
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return sequence, ok && err == nil && len(digits) == offsetDigits
}
