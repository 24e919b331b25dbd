// Package placement decides which brokers hold the replicas of new partitions.
//
//  1. The answer is a function of the brokers, their loads and the seed: the same input places the same way.
//  2. No two replicas of a partition are on one broker. They are spread over as many zones as there are, then over the least loaded brokers.
//  3. The leader of a partition is that of its brokers which leads the fewest. Ties go by a hash of seed, partition and broker.
//
// Called by catalog. Pure.
package placement
