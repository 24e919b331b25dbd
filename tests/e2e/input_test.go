package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// input is a file that goes through SQ, and the topic it goes through.
type input struct {
	path, topic string
	content     []byte
}

func (in input) sha() string {
	sum := sha256.Sum256(in.content)
	return hex.EncodeToString(sum[:])
}

// same tells where got differs.
func (in input) same(t *testing.T, got []byte) {
	t.Helper()
	if bytes.Equal(got, in.content) {
		return
	}
	at := 0
	for at < len(got) && at < len(in.content) && got[at] == in.content[at] {
		at++
	}
	t.Errorf("%s (sha256 %s, %d bytes) came back as %d bytes, other from byte %d on: %q, want %q", in.path, in.sha(), len(in.content),
		len(got), at, snippet(got, at), snippet(in.content, at))
}

func snippet(b []byte, at int) []byte { return b[max(0, at-20):min(len(b), at+40)] }

// lines are the file's records as raw splits them: each with its end.
func (in input) lines() [][]byte {
	var out [][]byte
	for line := range bytes.SplitAfterSeq(in.content, []byte("\n")) {
		if len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// inputs gives the files of testdata, and the real ones where they are.
func inputs(t *testing.T) []input {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.log"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no input in testdata: %v", err)
	}
	dir := os.Getenv("SQ_LOGS")
	if dir == "" {
		dir = filepath.Join(programs.Root, "..", "shared", "data", "logs")
	}
	real, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || (os.Getenv("SQ_LOGS") != "" && len(real) == 0) {
		t.Fatalf("no input in SQ_LOGS %s: %v", dir, err)
	}
	notInNames := regexp.MustCompile(`[^a-z0-9-]+`)
	var out []input
	for _, path := range append(paths, real...) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ToLower(strings.TrimSuffix(filepath.Base(path), ".log"))
		out = append(out, input{path, notInNames.ReplaceAllString(name, "-"), content})
	}
	return out
}
