// Package compaction carries out what compact decides, for one partition: it reads and rewrites sealed segments beside the log, has the log name what
// they became, and puts them in their places.
//
//  1. A pass runs in a goroutine of its own. It reads and writes on bulk workers, slice by slice, no faster than the disk's Turn allows, and one pass
//     of a disk at a time. It changes nothing of the log but by a Compact.
//  2. A segment is put in place only when its Compact is committed and its bytes were read again as a whole, and in the log's order: one that cannot
//     be put in place stops those behind it. After a crash this goes on by what the log says, whoever leads and whatever the topic's settings are.
//  3. A file that the log does not name is removed by the next pass, which begins only when nothing is on its way into the log.
//
// Called by replica on its goroutine; callbacks come there too, but for those of the pass. Who owns the Host joins what Host.Run has started.
package compaction
