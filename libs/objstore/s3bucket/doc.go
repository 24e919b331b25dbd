// Package s3bucket is an objstore.Bucket in S3 or a store that speaks its protocol.
//
//  1. Every upload carries a CRC32C that the store checks; a download of a whole object is checked against the store's.
//  2. A condition of a large upload goes on its completion, so that it holds as for a small one.
//  3. What the SDK says becomes one of objstore's errors, with the key and the cause.
//  4. Memory is bounded: a large upload holds Concurrency parts of PartBytes.
//
// Called by the tierer's main, by inspect and by tests. Safe for concurrent use. It does not log. It makes its own connections (an S3 client
// does not go through transport.Network).
package s3bucket
