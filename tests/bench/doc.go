// Package bench measures a cluster of three brokers, two coordinators and two gateways on one machine: what a failover takes, as a distribution,
// what three replicas cost beside one, and what idle partitions cost.
//
//  1. Nothing is judged: numbers are printed, with what they were measured on beside them. Tests assert behaviour elsewhere.
//  2. It runs only where SQ_BENCH is set, to a list of what to measure; else it is skipped. tests/bench/cluster.sh sets it.
//
// It is all tests: they have the cluster of tests/cluster. run.sh, beside it, measures one broker.
package bench
