package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// traced tells whether a system call of a process can be made to fail.
func traced(t *testing.T) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "strace", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace: %w: %s", err, out)
	}
	return nil
}

// failSync has the kernel fail a sync of a leader: it must end, and has everything when it is started again.
func (s *several) failSync() {
	name := s.leader()
	s.c.Expect(failedDisk.String())
	p := s.c.Process(name)
	trace := exec.CommandContext(s.t.Context(), "strace", "-f", "-p", strconv.Itoa(p.PID()), "-o", "/dev/null",
		"-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=3")
	if err := trace.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, endTimeout, name+" ends by itself behind a sync that failed", func() bool { return !p.Running() })
	_ = trace.Wait() // ends with the process
	s.c.Restart(s.t, name)
}

// compare wants sealed segments of a broker to be the same bytes as those of the brokers before it. It is sealed if another segment follows.
func compare(t *testing.T, dir string, same map[string][]byte) {
	t.Helper()
	idents, err := filepath.Glob(filepath.Join(dir, "replicas", "*", "ident"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range idents {
		var ident struct {
			Topic     string
			Partition int
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &ident)
		}
		if err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(filepath.Dir(path), "log", "*.log"))
		if err != nil || len(logs) == 0 {
			continue
		}
		for _, log := range logs[:len(logs)-1] { // in order: names are offsets of equal length
			key := fmt.Sprintf("%s/%d/%s", ident.Topic, ident.Partition, filepath.Base(log))
			sum := sumOf(t, log)
			if other, known := same[key]; known && !bytes.Equal(other, sum) {
				t.Errorf("%s is another file than on a broker before", log)
			}
			same[key] = sum
		}
	}
}

func sumOf(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		t.Fatal(err)
	}
	return sum.Sum(nil)
}
