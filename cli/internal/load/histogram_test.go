package load

import (
	"testing"
	"time"
)

func TestBucketsCoverAllValues(t *testing.T) {
	last := -1
	for _, ns := range []uint64{0, 1, 31, 32, 33, 63, 64, 65, 1000, 1 << 20, 1<<20 + 1, 1<<63 - 1, 1<<64 - 1} {
		b := bucketOf(ns)
		if b < last || b >= buckets {
			t.Errorf("%d is in bucket %d of %d, behind %d", ns, b, buckets, last)
		}
		if upper(b) < ns || (b > 0 && upper(b-1) >= ns) {
			t.Errorf("%d is not in (%d, %d]", ns, upper(b-1), upper(b))
		}
		last = b
	}
}

func TestPercentiles(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	got := h.latencies()
	for _, c := range []struct{ got, want float64 }{{got.P50, 501}, {got.P90, 901}, {got.P99, 991}, {got.P999, 1000}} {
		if c.got < c.want || c.got > c.want*1.04 {
			t.Errorf("%v, want %v and a little", c.got, c.want)
		}
	}
	if got.Max != 1000 {
		t.Errorf("max %v", got.Max)
	}
	if none := (&histogram{}).latencies(); none != (Latencies{}) {
		t.Errorf("of nothing: %+v", none)
	}
}
