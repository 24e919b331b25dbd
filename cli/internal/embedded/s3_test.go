package embedded_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/cli/internal/embedded"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/buckettest"
)

// One server at a time is all that a process can have: the tests share one start after the other.
func TestS3(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	s, err := embedded.StartS3(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := s.Bucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready in %v", time.Since(start))
	runs := 0
	buckettest.Run(t, func(*testing.T) (objstore.Bucket, string) {
		runs++
		return bucket, fmt.Sprintf("run%d/", runs)
	}, 17<<20)
	if _, err := bucket.Put(t.Context(), "kept/a b", strings.NewReader("x"), 1, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = embedded.StartS3(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if bucket, err = s.Bucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, _, err := bucket.Get(t.Context(), "kept/a b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if got, err := io.ReadAll(body); err != nil || string(got) != "x" {
		t.Errorf("after a restart: %q %v", got, err)
	}
}
