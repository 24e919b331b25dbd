// Package window counts the calls in flight on a connection, up to a limit.
//
//  1. Acquire returns nil only while fewer than the limit are counted; each is counted until Release.
//  2. A lowered limit holds for later Acquires and takes nothing back.
//
// Called by frame.Client and frame's server connections. Safe for concurrent use.
package window
