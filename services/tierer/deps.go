package tierer

import (
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/vfs"
)

// Deps is what a programmer hands in.
type Deps struct {
	node.Deps

	Bucket objstore.Bucket // with a method Ensure(ctx) error where Config.CreateBucket is to work
	// Spool is an own directory for segments on their way to the bucket; nil = in memory. Nothing in it outlives the process.
	Spool vfs.FS
}
