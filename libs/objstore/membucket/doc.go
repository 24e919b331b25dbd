// Package membucket is an objstore.Bucket in memory.
//
//  1. It passes objstore/buckettest, as s3bucket does.
//  2. Objects are copied in and never changed: a reader that is open keeps what it opened.
//
// Called by tests and by throw-away runs. Safe for concurrent use.
package membucket
