// Package members says who is in the cluster: which brokers live, in which incarnation, and what each carries.
//
//  1. A broker lives if its live key is there and names the incarnation that its ident does: between the boot of a new process and its
//     registration the old key names a process that is gone.
//  2. Everything here is a function of one View and of the reports at a moment. A report counts if its broker lives in the incarnation that sent
//     it, and a suspicion if it is of the incarnation that lives.
//
// Called by placement, catalog, nomination, moves, reconcile, operator and api. Pure.
package members
