// Package export puts tier tables into the bucket as manifests and tells their leaders, who may then delete local data below the tier end.
//
//  1. A leader is told only after the manifest that has its table is in the bucket, under a sequence that is not below the partition's floor.
//  2. What a manifest says is what the partition's leader said after Export was called.
//  3. Tables that wait at the same time share a manifest, as far as its limits allow.
//  4. A sequence is taken by creating the object; a PUT that was not answered is resolved by reading the object.
//
// Called by the tierer's worker (Export), whose calls Run serves, one manifest at a time. Safe for concurrent use.
package export
