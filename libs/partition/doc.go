// Package partition has the nouns of a log: who it is, where a record is, and who holds it.
//
//  1. Offsets are half-open everywhere: [start, end).
//  2. A topic is its UUID; its name is only a way to find that.
//  3. An Epoch names one leader process and one member set for ever.
//
// Called by everything. Values only.
package partition
