package broker

import (
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/vfs"
)

// Deps is what a programmer hands in.
type Deps struct {
	node.Deps

	FS vfs.FS // the data directory; stays the caller's to close
}
