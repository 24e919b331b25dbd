package wal

import (
	"flag"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// How much the sampled tests try; `make crash` turns them up.
var (
	crashSeeds  = flag.Uint64("wal.seeds", 1, "workloads whose every operation is a crash point")
	crashStates = flag.Int("wal.states", 3, "random states tried for each crash point, beside nothing and everything unsynced")
	damageStep  = flag.Int("wal.damage", 97, "bits between two that are flipped; 1 = every bit")
)

func newMem() *memfs.FS { return memfs.New() }

func newFaulty(inner *memfs.FS) *faultfs.FS { return faultfs.New(inner, clock.Real()) }
