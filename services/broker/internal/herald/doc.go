// Package herald tells the active coordinator what this broker sees: which brokers do not answer, which of its own replicas are lost, how its
// disk is, and that it wants to lead nothing.
//
//  1. A report says all there is to say; the next replaces it. One goes out at once when something has changed, every 2 s while there is
//     something that a coordinator must act on, and every 5 s else, so that it knows the room on the disk.
//  2. The coordinator is the one that the View names. Where there is none, or it does not answer, nothing is kept for it: the next report
//     says it all.
//  3. A drain ends when this broker leads nothing that another could lead and no election needs its promise any more; when that has come no
//     nearer for 3 s; or when its time is over. Nobody decides by it who leads: a broker that stops undrained is a broker that fails.
//
// Made and run by the broker's root. One goroutine; Drain may be called from another, once.
package herald
