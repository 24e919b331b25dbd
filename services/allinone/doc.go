// Package allinone is all of SQ in one process: a coordinator, brokers, a tierer and a gateway, by the constructors and code paths of
// production.
//
//  1. It composes and decides nothing: metadata, bucket, disks, networks and clock are handed in.
//  2. Services talk over a network in memory, on which each is a host of its own. Outside, only the gateway listens, and the admin port.
//  3. Services start coordinator, brokers, tierer, gateway and stop in reverse.
//  4. A broker whose disk is poisoned is started anew, in its next incarnation; any other error of a service ends all.
//  5. Several can run in one process.
//
// Called by `sq dev` and by tests. It is the only package that imports services.
package allinone
