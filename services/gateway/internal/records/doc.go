// Package records is sq.data.v1: publish and fetch for small clients, over the same routes and connections as the data plane.
//
//  1. What is wrong with a request is told before anything of it is stored. After that each record has its own result: a request is not
//     atomic. Where nothing was stored and all failed alike, the call fails.
//  2. A record goes to the partition that was named; else by its key; else by the request's Idempotency-Key; else all of a request go to
//     one partition, another one each time.
//  3. An Idempotency-Key makes of each partition's share exactly one batch with that key, so that a repeated request stores nothing twice
//     (within the broker's window). A share that does not fit into one batch is refused.
//  4. A Fetch is a function of its request: the cursor holds every position. Nothing is kept between two calls but idle connections.
//  5. end_reached is true only if every partition's broker (never a tierer) said that nothing lies behind the cursor.
//  6. Data that cannot be had (trimmed, damaged) is an error, never a gap. Its details hold a cursor that leads past it, for who accepts
//     the loss.
//
// Called by gRPC clients and by rest. Safe for concurrent use. It has no consumer groups.
package records
