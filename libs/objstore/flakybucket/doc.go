// Package flakybucket is an objstore.Bucket that fails by rule: it wraps another and stands for the network and the store between.
//
//  1. Without a rule that matches it does what the bucket inside does: it passes objstore/buckettest.
//  2. The first rule that matches a call decides; rules count their calls, so that a run is repeatable.
//
// Called by tests. Safe for concurrent use.
package flakybucket
