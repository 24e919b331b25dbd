// Package embedded runs the servers that SQ needs beside itself inside the process of `sq dev`: etcd and an S3 server.
//
//  1. Both keep their data in directories of their own and sync it: after kill -9 or a power cut they come back with what they acknowledged.
//  2. etcd listens nowhere: its one client is in the process. The S3 server listens on a free port of the loopback interface, with credentials
//     that are made anew at each start and never leave the process.
//  3. There is at most one S3 server in a process (a limit of versitygw).
//
// Called by cli/internal/dev only: production has real ones.
package embedded
