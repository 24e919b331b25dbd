// Package storetest is the conformance suite of topology.Store: what every home does. Called by the tests of memstore, and with a real etcd
// by the module tests.
package storetest
