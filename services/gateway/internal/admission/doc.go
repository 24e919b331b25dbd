// Package admission bounds what a gateway holds for its clients: the bytes of bodies and the number of calls.
//
//  1. All bodies in memory, requests' and answers', come out of one Gate's budget. Who finds no room is told Overloaded, with a hint.
//  2. One client's answers take at most its Share, so that a client that reads slowly cannot use up the budget.
//  3. A call over gRPC or REST holds a slot; where none is free it is refused at once, never queued.
//
// Called by data (bodies), upstream through shares (answers) and control (slots). Safe for concurrent use. It knows no principals: quotas
// per principal belong here when there are principals.
package admission
