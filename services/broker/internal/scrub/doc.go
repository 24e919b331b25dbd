// Package scrub reads sealed segments again, slowly, so that damage is found while other replicas still have good bytes.
//
//  1. A pass reads every sealed segment of the disk once, past the page cache, and takes about Interval: between two segments it waits so long
//     that their bytes are spread evenly. It reads at no more than Rate. Where it begins is random: short lives of a broker look at all of it in
//     the end.
//  2. What is checked: framing, both checksums of every batch, chain, contiguity, and the digest against the Seal. Bad bytes are read a second
//     time before they are called damage, and a segment that was dropped meanwhile never is.
//  3. A fault is logged and counted once, and again only after the segment was found good. Whoever serves the segment is told every time:
//     what it cannot read itself, it does not serve.
//  4. Reads are bulk jobs of the disk's workers: appends and fetches go first.
//
// Called by the broker's root. The plan is a value without clock or I/O; Run is one goroutine. It repairs nothing.
package scrub
