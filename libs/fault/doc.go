// Package fault is the closed set of error kinds that SQ's services speak, and the one table that says what each kind is on every wire.
//
//  1. Every error that leaves a service has exactly one Kind; an error without one is Internal.
//  2. The kinds are those of ErrorKind in proto/capnp/wire.capnp, with the same numbers.
//  3. Retryable means: nothing was done, and the same call may succeed later or elsewhere. OutcomeUnknown is not retryable by itself:
//     only a caller whose call is idempotent may repeat it.
//
// Called by every service and by the gateway's REST and gRPC edges. Values are immutable and safe for concurrent use. It does not log
// and does not translate to a wire: fault/faultwire does.
package fault
