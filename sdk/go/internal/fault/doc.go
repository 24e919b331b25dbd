// Package fault is the client's errors between its packages: one type with the kinds of the wire, made of whatever the layers below gave.
//
//  1. Every error has exactly one kind; what says nothing else is internal.
//  2. A call that was sent and has no answer is outcomeUnknown, never anything that sounds like "not done".
//  3. No type of the protocol's packages stays in the chain; the ends of contexts do, since callers compare with them.
//
// Called by the packages of the SDK; package sq turns it into its public Error at the edge. Values do not change.
package fault
