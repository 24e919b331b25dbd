// Package doctor looks for the usual mistakes of a set-up, from where a user sits.
//
//  1. It changes nothing: no topic is made and no record is published.
//  2. A check says ok, warn or fail, what was seen, and for the last two what to do next. What cannot be seen from here is no finding.
//  3. Every call has its own time limit; the checks go on where one of them fails.
//
// Called by `sq doctor`. The checks run one after the other on the caller's goroutine.
package doctor
