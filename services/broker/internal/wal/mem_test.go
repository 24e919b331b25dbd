package wal

import (
	"os"
	"testing"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// knobs say how much the sampled tests try.
type knobs struct {
	models uint64 // random histories
	seeds  uint64 // workloads whose every operation is a crash point
	states int    // random states of each crash point, beside nothing and everything unsynced
	bits   int    // bits between two that are flipped
	bytes  int    // bytes between two places where the file is cut
	full   bool   // from every crash state the recovery is crashed, too
}

// sample is what a change is tested with; SQ_CRASH=full (`make crash`) is for the whole of it.
func sample() knobs {
	switch {
	case os.Getenv("SQ_CRASH") == "full":
		return knobs{models: 20000, seeds: 40, states: 50, bits: 1, bytes: 1, full: true}
	case raceDetector:
		return knobs{models: 10, seeds: 1, states: 0, bits: 9973, bytes: 4999}
	case testing.Short():
		return knobs{models: 50, seeds: 1, states: 1, bits: 997, bytes: 499}
	default:
		return knobs{models: 150, seeds: 1, states: 2, bits: 97, bytes: 41}
	}
}

func newMem() *memfs.FS { return memfs.New() }

func newFaulty(inner *memfs.FS) *faultfs.FS { return faultfs.New(inner, clock.Real()) }

// place puts bytes into a file of the log's directory, durably.
func place(t testing.TB, fsys vfs.FS, name string, p []byte) {
	t.Helper()
	if err := fsys.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(testDir+"/"+name, vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncAll(); err != nil {
		t.Fatal(err)
	}
}

// slurp gives the bytes of a file of the log's directory.
func slurp(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(testDir+"/"+name, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n != len(p) {
		t.Fatalf("read %s: %d bytes: %v", name, n, err)
	}
	return p
}
