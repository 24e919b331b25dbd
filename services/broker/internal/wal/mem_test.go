package wal

import "github.com/seedqueue/sq/libs/vfs/memfs"

func newMem() *memfs.FS { return memfs.New() }
