// Package version tells which build of SQ runs.
//
//  1. A released program says what was linked into it; any other says the commit it was built from, or "dev".
//  2. It is constant for the life of the process.
//
// Called by every main. Safe for concurrent use.
package version
