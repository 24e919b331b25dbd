// Package gateway is SQ's front: the one address that clients know. It terminates Cap'n Proto, gRPC and HTTP, admits, routes to brokers,
// tierers and the coordinator, and keeps nothing.
//
//  1. Any gateway of a cluster serves any client at any moment: what a client needs between two requests it holds itself (offsets, cursors).
//  2. A gateway starts and listens without etcd, and is ready when it has read the cluster's metadata once. After that it goes on serving
//     while etcd is away, with what it knows.
//  3. It registers itself under /sq/gateways/<id>/live, for operators to see; nothing depends on that.
//  4. It stops in order: it is no longer registered, streams and long polls end, GoAway goes out, what is in flight is answered for up to
//     10 s, and everything it started has ended when Run returns.
//
// The walk of a request: data or rest → control (gRPC) → records, all over route and upstream; admission bounds them. Called by
// cmd/sq-gateway and services/allinone.
package gateway
