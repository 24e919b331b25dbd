// Package conformance runs the suites of SQ's seams on the real servers: topology/storetest on an etcd and objstore/buckettest on an S3
// server, both embedded in the test process. They stay out of the product's modules.
package conformance
