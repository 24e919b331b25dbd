// Package readindex is those who wait to hear that a replica leads, and how far the log is committed then.
//
//  1. A round answers only those who came before it began: one that is under way says nothing to who comes later, who wait for the next.
//
// Called by replica, on its goroutine.
package readindex
