// Package buckettest is the conformance suite of objstore.Bucket: what every home does, whatever is behind it. Called by the tests of the
// homes, and with a real S3 server by the module tests.
package buckettest
