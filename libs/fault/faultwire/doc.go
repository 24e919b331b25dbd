// Package faultwire carries faults over Cap'n Proto and gRPC without losing their kind.
//
//  1. FromX(ToX(err)) has the same kind, text and details as err.
//  2. A kind number that this build does not know becomes Internal and keeps its text.
//  3. A gRPC status carries the reason in an ErrorInfo of the domain "sq"; a status without one gets the kind its code implies.
//
// Called by the edges of services. Pure functions.
package faultwire
