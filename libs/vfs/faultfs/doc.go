// Package faultfs is a file system that fails by rule, around any other.
//
//  1. Without a rule it changes nothing.
//  2. Calls that a rule can match are numbered from 1 in the order they arrive; Observe sees each before it is carried out.
//  3. A failed sync writes nothing and, over memfs, leaves the pages as vfs says: not durable, and not made so by a later sync.
//  4. A short write writes that much and fails; a failed call of any other kind does nothing.
//
// Called by tests and the simulation. Safe for concurrent use. It makes no random choices: the caller's rules do.
package faultfs
