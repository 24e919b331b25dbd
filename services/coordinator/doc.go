// Package coordinator is the service that decides what exists and who leads: topics, placement, nominations. One of any number of
// coordinators is active, elected through etcd; the others stand by.
//
//  1. It holds nothing outside etcd. Whichever process is active next goes on from there.
//  2. Two that believe to be active are harmless: every write compares the term and the key it changes.
//  3. Data flows without it: while it is gone no topic changes and no leader is nominated, and everything else goes on.
//  4. It waits for etcd: until the first answer it serves its health port, and its calls answer UNAVAILABLE.
//
// Parts: election (one of many), catalog (topics and namespaces), placement (which brokers), reconcile (nominations, and what is left over),
// members (who lives), api (gRPC). Called by cmd/sq-coordinator and by allinone.
package coordinator
