// Package load drives SQ with the SDK through a gateway and measures what comes of it. It is the instrument of `sq bench`.
//
//  1. A latency is that of one publish call as a program sees it, from handing a batch over to having its answer, retries included.
//  2. Rates count acknowledged records and the bytes of their values, over the time from the first to the last; connecting and looking up are
//     not in it.
//  3. What the load itself costs is small beside what it measures: records are made once, and counting allocates nothing.
//
// Called by cli/internal/command. It prints nothing.
package load
