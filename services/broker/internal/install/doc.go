// Package install puts a log that begins anew in the place of one that ends below its leader's local start: what the partition was at
// that offset, and nothing before it.
//
//  1. A replica's directory holds one log: log, or log.<generation>-<at>-<chain>, whose name says where it begins, of the greatest generation.
//  2. What is being installed is made whole beside it, under a name that ends in .tmp. The replica's mark in the journal, of that generation and
//     place, decides; then the directory is renamed, now or by the next Open (R18). Until then, and if it never comes, the old log is the log.
//  3. Old logs are removed when the new one is open.
//
// Called by replica (Incoming) and by roster (Open, Logs, Clean). Only the replica's owner may call. It does not look into a log.
package install
