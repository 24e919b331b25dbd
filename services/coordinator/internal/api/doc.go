// Package api is the coordinator's gRPC service: it turns messages into calls of catalog and back.
//
//  1. A coordinator that is not the active one answers UNAVAILABLE with the reason NOT_COORDINATOR to everything.
//  2. What a message can say and a topic cannot be is refused with the field's name in it.
//  3. Page tokens and etags are opaque to callers.
//
// Called by gateways. Safe for concurrent use. It keeps no state.
package api
