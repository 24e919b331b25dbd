// Package faultwire carries faults over Cap'n Proto and gRPC without losing their kind.
//
//  1. FromX(ToX(err)) has the same kind, text and details as err.
//  2. A kind number that this build does not know becomes Internal and keeps its text.
//
// Called by the edges of services. Pure functions.
package faultwire
