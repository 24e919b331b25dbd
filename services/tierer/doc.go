// Package tierer is the service between brokers and bucket: it uploads sealed segments, exports the tier tables, deletes what the log has
// dropped, and serves cold reads. It makes every call to the object store.
//
//  1. It decides nothing: the partition's leader commits what is tiered, and names what may be deleted.
//  2. It holds nothing but caches: a tierer that is killed loses work in hand, which the leaders name again.
//  3. Any number share the work by rendezvous hash; every one can serve every cold read.
//  4. Without etcd, a broker or the bucket it goes on with what can be done, says on /readyz what is missing, and tries again.
//
// Parts: harvest (finds work), upload, export, retention (do it), ledger (what the bucket has), coldread with blockcache (reads it), api (the
// data port), leader (calls to brokers), probe (the store). Called by cmd/sq-tierer and by allinone.
package tierer
