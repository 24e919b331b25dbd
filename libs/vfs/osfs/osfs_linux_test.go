package osfs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnwritten: the kernel may write any part of what it is given.
func TestUnwritten(t *testing.T) {
	for n, want := range map[int]string{0: "abcdefg", 2: "cdefg", 3: "defg", 4: "efg", 5: "fg", 7: ""} {
		left := unwritten([][]byte{[]byte("abc"), []byte("d"), []byte("efg")}, n)
		got := ""
		for _, b := range left {
			got += string(b)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d bytes: %s", n, diff)
		}
	}
}
