// Package objstore is the bucket as SQ needs it: immutable objects under keys, with conditional writes, checksums and ranges.
//
//  1. Put with IfAbsent never replaces: of any number of racing writers one succeeds and the others get ErrExists.
//  2. A Put that returns an error may have happened (a timeout); the caller asks Head.
//  3. Get verifies the transport's checksum where the store gives one; callers verify content by their own digests all the same.
//
// Homes: objstore/s3bucket (aws-sdk-go-v2), objstore/membucket, objstore/flakybucket (fails by rule). All pass objstore/buckettest.
// Called by the tierer and by inspect; brokers make no call here. Safe for concurrent use.
package objstore
