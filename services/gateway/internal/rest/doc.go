// Package rest is the gateway's HTTP: REST by grpc-gateway, the routes that need plain bytes or streams by hand, OpenAPI and its page.
//
//  1. Every route ends in a gRPC call over a connection in memory, so that limits, counts and checks are those of gRPC. Nothing of a
//     request but its Idempotency-Key becomes metadata of that call.
//  2. Every error is `{"code": <HTTP status>, "message": <a sentence>, "details": [{"reason": <a stable word>, "retryable": …, …}]}`.
//     Reasons are those of libs/fault; of HTTP's own there are METHOD_NOT_ALLOWED, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE.
//     With OFFSET_TRIMMED comes logStart, with OFFSET_OUT_OF_RANGE highWatermark; where reading can go on behind lost data, a cursor.
//  3. A body is read only as far as its limit and the gate's budget go, and JSON only as deep as its limit.
//  4. A `json` value is stored as the very text that was sent.
//  5. A request that a browser makes for another site is refused where it would change something.
//  6. Every request but health and documentation holds a slot of the gate. Streams end when the gateway drains.
//
// By hand, below /v1/topics/{topic} and /v1/namespaces/{namespace}/topics/{topic}:
//
//   - POST /records, any content type: the body is one record's value. Sq-Key is its key, Sq-Header-<Name> a header with the name in lower
//     case; ?partition=, Idempotency-Key. Answers as :publish does, but a failure of the record is the request's.
//   - POST /records, application/x-ndjson: a NewRecord of the API in JSON a line. Lines are stored in order, some at a time, until one
//     fails: its number is in the error's details (line), and how many before it were stored (stored). With an Idempotency-Key the same
//     stream may be sent again. Answers {records, partitions: [{partition, records, firstOffset, lastOffset}], durability}.
//   - GET /records?cursor=|from=&partition=&maxRecords=&maxBytes=&waitTime=20s, by Accept: application/json (FetchResponse),
//     application/x-ndjson (a record a line), text/plain (a value a line), application/octet-stream (the values, nothing between: for one
//     partition), text/event-stream (an event a record, until the client goes; its id is the cursor behind it, Last-Event-ID goes on there).
//     All but JSON carry the headers Sq-Next-Cursor and Sq-End-Reached.
//
// Called by the gateway's parts. Safe for concurrent use. It keeps nothing between requests. /metrics is not here: it is on the admin
// listener.
package rest
