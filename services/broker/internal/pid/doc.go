// Package pid gives out producer ids that nobody had before.
//
//  1. Ids come from blocks that are taken from the topology store by compare-and-swap; what a process did not give out when it ends is
//     lost, never given again.
//  2. Ids start at 1. A write whose outcome is unknown costs a block, never an id that two have.
//
// Called by data (initProducer). Safe for concurrent use. It does not remember who has which id.
package pid
