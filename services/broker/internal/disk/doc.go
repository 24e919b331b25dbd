// Package disk watches the room on a data disk and says what may still be written to it.
//
//  1. Below the first mark records are refused, below the second one every append but those that make room: promises, seals, trims and cuts
//     go on to the last byte.
//  2. A ballast file holds some of the disk back for those. It is let go when even they have no room, and is made again before appends go
//     on: nothing else gets its room.
//  3. A state ends by itself, a little above its mark, so that it does not go to and fro. It is logged once a change. A poisoned disk stays
//     poisoned for the life of the process.
//  4. Nothing is ever deleted to make room.
//
// Made by the broker's root, which runs it; asked by replica before it appends, and by the root for /readyz. All but Run is safe for concurrent
// use and never waits for the disk. What decides is pure (rule.go); what acts is watch.go.
package disk
