// Package upstream makes a client's calls to brokers and tierers: it finds who serves a partition, keeps the connections, repeats what may
// be repeated and tells the honest outcome of the rest.
//
//  1. A Caller has its own connections, one per address, opened when first needed: a slow client slows only itself.
//  2. A publish is repeated only where it was certainly not done: it was not sent, or was refused by one of the kinds that say so
//     (not-leader, stale-epoch, unavailable, disk-poisoned). Whatever else happened to it after it was sent is OutcomeUnknown. A Repeatable
//     one, which leaders know again, is sent again then; from there on it is stored or its outcome is unknown, whatever a later attempt is
//     refused for.
//  3. Publishes of one Caller to one partition reach a leader in the order of Submit, without waiting for answers. A refusal holds back
//     those behind it until all in flight have an answer; then the refused ones go first, in their order. What a leader refuses and takes of
//     requests in flight at once is its own affair: only producers with sequences are safe from that.
//  4. A read is repeated until it has an answer, its context ends or Limits.RetryFor is over. While the leader cannot be asked, a fetch may be
//     answered by another member: below its high watermark it has the one true log.
//  5. An answer or a connection that does not come is given up when the View names another leader: a paused or unreachable broker holds nobody
//     up. What is not Repeatable gives the old leader a moment more. Later calls make a new connection to it.
//  6. Below the local start a tierer is asked, the next one where it fails, and the broker again where the tier has not got that far.
//  7. A publish's body is not touched after its free function was called, and is in use until then.
//
// Called by data and records (Submit, Fetch, ListOffsets, InitProducer) and control (Seal, Trim, PartitionState). A Cluster and a Caller
// are safe for concurrent use; Close joins their goroutines. It reads no batch and makes no policy of who may call.
package upstream
