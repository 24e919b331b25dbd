// Package gateway is a client's side of a gateway: a Link, which is a connection that is made anew at the next address when it is lost, and
// the calls that a client makes over it, as plain values.
//
//  1. One dial goes on at a time; it tries every address once. What a gateway refuses for good is the answer of all.
//  2. A connection that did not answer in time is closed: what waits on it would wait as long.
//  3. Nothing is tried again here: the caller knows until when.
//  4. What an answer says is checked before it is believed: partitions in order, offsets that fit an int64.
//
// Called by package sq and by outbox. A Link is safe for concurrent use; a Topic does not change. It does not know records.
package gateway
