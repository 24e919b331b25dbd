// Package probe says whether the object store can do what SQ needs of it, and whether it answers.
//
//  1. A store is used only after it has passed the probe: conditional writes (one at a time and raced), reading and listing what was just
//     written, ranges. "S3-compatible" does not promise these.
//  2. Every call of the tierer goes through the Monitor: the newest outcome says whether the store answers, and while it does not the monitor
//     asks again by itself.
//  3. It leaves nothing behind in the bucket, but for what a crash in its middle leaves under <cluster>/probe/.
//
// Called by the tierer: Run by its lifecycle, Ready by harvest and /readyz, the bucket by everything. Safe for concurrent use.
package probe
