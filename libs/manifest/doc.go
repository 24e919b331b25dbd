// Package manifest has the nouns of the bucket: a segment's object, a partition's table of them, the manifest that exports tables, and
// the keys of all of these. docs/formats/manifest.md has the rules.
//
//  1. A Segment's key names its content, so that a key is never used for other bytes.
//  2. A manifest never changes. Of those that have a partition, the one with the highest epoch, table version and sequence, in this order,
//     is valid: a tierer that was slow does not take back what a quicker one exported.
//  3. The same Manifest gives the same bytes; Parse accepts nothing whose checksum, order or ranges are wrong, and allocates nothing by a
//     length that was not checked.
//  4. The log decides: a table is what its partition's leader says. A manifest is a copy of it for whoever cannot ask.
//
// Called by the tierer and by `sq inspect`. Values only; safe for concurrent use as long as nobody writes them.
package manifest
