// Package merge shows the metrics of several services, each with a registry of its own, in one registry.
//
//  1. Every metric of a source gets the source's labels, so that two brokers in one process do not collide.
//  2. A source can be replaced: a broker that starts anew brings a new registry.
//
// Called by allinone. Safe for concurrent use.
package merge
