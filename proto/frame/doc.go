// Package frame is SQ's data plane on a connection: standard Cap'n Proto stream messages, a Request from the side that dialled and a
// Response with the same id from the other, each followed by bodyBytes bytes of body. docs/formats/wire.md has the rules.
//
//  1. No length read from the wire is allocated before it is checked against the limit of the connection's state and its bytes arrive:
//     a message grows in steps of at most 64 KiB, a body is reserved from the Budget in steps before each is read.
//  2. Every malformed input ends in a typed error (FormatError, or an answered RemoteError); never in a panic.
//  3. A Request is answered exactly once; answers may go in any order. Requests reach the Handler in the order of the wire.
//  4. Bodies are not copied on their way out: they are written by writev, or by sendfile where the Body can, and belong to the connection
//     until they are written (Body.Close) or the call is Done.
//  5. A slow peer costs its own connection only: a server stops reading from who has MaxInFlight requests unanswered or unwritten, and
//     closes who takes no bytes for WriteTimeout or sends none for StallTimeout inside a message.
//  6. A ConnError says whether the request may have been carried out: Sent is false only if it was not written whole.
//
// Called by the SDK, and by gateway, broker and tierer on both sides. Client, Server, Request, Pending, Budget and Pool are safe for
// concurrent use; a Reader belongs to one goroutine. It does not know batches, topics or authentication (ServerConfig.Accept does), does
// not dial, does not retry.
package frame
