package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram has buckets whose width is a 32nd of their power of two, so that a percentile is right to 3 %.
const (
	subBits = 5
	buckets = (64 - subBits + 1) << subBits
)

// histogram counts durations. It is safe for concurrent use.
type histogram struct {
	counts [buckets]atomic.Uint64
	max    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))].Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// bucketOf numbers the buckets by value.
func bucketOf(ns uint64) int {
	if ns < 1<<subBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - subBits - 1
	return (shift+1)<<subBits + int(ns>>shift) - 1<<subBits
}

// upper is the greatest value of a bucket.
func upper(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(1<<subBits-1))+1<<subBits+1)<<shift - 1
}

// Latencies of calls, in milliseconds.
type Latencies struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// latencies sums the histogram up.
func (h *histogram) latencies() Latencies {
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	largest := uint64(h.max.Load())
	at := func(part float64) float64 {
		rank, seen := uint64(part*float64(total)), uint64(0)
		for i := range h.counts {
			if seen += h.counts[i].Load(); seen > rank {
				return millis(min(upper(i), largest))
			}
		}
		return millis(largest)
	}
	return Latencies{P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: millis(largest)}
}

func millis(ns uint64) float64 { return float64(ns/1000) / 1000 }
