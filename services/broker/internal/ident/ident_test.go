package ident_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/services/broker/internal/ident"
)

var (
	cluster = partition.UUIDOf(1, 1)
	other   = partition.UUIDOf(2, 2)
	disk    = partition.UUIDOf(3, 3)
	now     = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func newDisk() partition.UUID { return disk }

func open(t *testing.T, dir vfs.FS) ident.Ident {
	t.Helper()
	id, err := ident.Open(dir, cluster, 1, newDisk, now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Invariant 2: the identity survives a power cut once Open has returned.
func TestOpenIsDurable(t *testing.T) {
	dir := memfs.New()
	want := open(t, dir)
	for seed := range uint64(20) {
		got, ok, err := ident.Read(dir.Crash(rand.New(rand.NewPCG(seed, 0))))
		if err != nil || !ok {
			t.Fatalf("after a power cut: %v, %v", ok, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after a power cut (-want +got):\n%s", diff)
		}
	}
	if got := open(t, dir); got != want {
		t.Errorf("second open gave %+v, want %+v", got, want)
	}
}

// A power cut during the first Open leaves a directory that opens.
func TestPowerCutWhileItIsMade(t *testing.T) {
	dir := memfs.New()
	f, err := dir.Open("ident.tmp", vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("half an ide"), 0); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	open(t, dir)
}

func TestOtherDirectoriesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spoil   func(t *testing.T, dir vfs.FS)
		cluster partition.UUID
		node    partition.NodeID
		kind    fault.Kind
		text    string
	}{
		"another cluster": {nil, other, 1, fault.WrongCluster, "belongs to cluster " + cluster.String() + ", this is cluster " + other.String()},
		"another broker":  {nil, cluster, 2, fault.Conflict, "belongs to broker 1, this is broker 2"},
		"damaged":         {func(t *testing.T, dir vfs.FS) { overwrite(t, dir, `"node": 1`, `"node": 2`) }, cluster, 2, fault.Corrupt, "checksum"},
		"no json":         {func(t *testing.T, dir vfs.FS) { overwrite(t, dir, "{", "[") }, cluster, 1, fault.Corrupt, "ident"},
		"newer format":    {func(t *testing.T, dir vfs.FS) { overwrite(t, dir, `"format": 1`, `"format": 9`) }, cluster, 1, fault.UnsupportedVersion, "format 9"},
		"identity lost": {func(t *testing.T, dir vfs.FS) {
			if err := dir.MkdirAll("journal"); err != nil {
				t.Fatal(err)
			}
			if err := dir.Remove("ident"); err != nil {
				t.Fatal(err)
			}
		}, cluster, 1, fault.Conflict, "has files (journal) but no identity"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memfs.New()
			open(t, dir)
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			_, err := ident.Open(dir, test.cluster, test.node, newDisk, now)
			if !fault.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v (%v), want %v with %q", err, fault.KindOf(err), test.kind, test.text)
			}
			if err := ident.Check(dir, test.cluster, test.node); !fault.Is(err, test.kind) {
				t.Errorf("check gave %v, want %v", err, test.kind)
			}
		})
	}
}

// Invariant 1, on the machine's files.
func TestLock(t *testing.T) {
	path := t.TempDir()
	first, second := fsOf(t, path), fsOf(t, path)
	lock, err := ident.Lock(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ident.Lock(second); !fault.Is(err, fault.DataDirInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("second lock gave %v, want DataDirInUse that names %s", err, path)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := ident.Lock(second)
	if err != nil {
		t.Fatalf("lock after the first was closed: %v", err)
	}
	_ = again.Close()
}

func fsOf(t *testing.T, path string) *osfs.FS {
	t.Helper()
	dir, err := osfs.New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func overwrite(t *testing.T, dir vfs.FS, old, new string) {
	t.Helper()
	f, err := dir.Open("ident", vfs.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && int64(len(data)) != size {
		t.Fatal(err)
	}
	at := strings.Index(string(data), old)
	if at < 0 {
		t.Fatalf("%q is not in %s", old, data)
	}
	if _, err := f.WriteAt([]byte(new), int64(at)); err != nil {
		t.Fatal(err)
	}
}
