package coordinator

import "github.com/seedqueue/sq/libs/node"

// Deps is what a programmer hands in.
type Deps = node.Deps
