// Package lease keeps a broker's /live key, but only while its disk works: a machine whose disk hangs must not look alive.
//
//  1. Every renewal, and the first registration, follows a heartbeat that was written to the data directory, made durable by fdatasync and
//     read back past the page cache, within BeatTimeout. A late or missing heartbeat means no renewal: the lease runs out by itself.
//  2. The registration replaces the key of this broker's earlier life at once; it is lost to a later life only, and Run then ends with
//     fault.Conflict.
//  3. A heartbeat that fails (rather than hangs) is a disk error: Run ends with fault.DiskPoisoned.
//  4. The store may be away for as long as it likes: the lease is renewed, or taken anew, when it is back.
//
// Called by the broker's root. New, Take, Run and Close are called in this order by one goroutine. It decides nothing about partitions.
package lease
