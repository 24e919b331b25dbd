// Package dev runs all of SQ in one process for somebody's own machine: allinone, with an embedded etcd and an embedded S3 server beside it.
//
//  1. Everything is under one directory, which one process uses at a time. It survives kill -9 and power cuts: all that was acknowledged is on
//     the disk.
//  2. With Memory nothing touches the disk and nothing survives the process.
//  3. The brokers of a directory may become more from one run to the next, never fewer: partitions are on them. A new one takes partitions of
//     topics that are made later.
//  4. What starts first stops last: the servers outlive the services.
//
// Called by cli/internal/command. It is not for production: one disk, one etcd.
package dev
