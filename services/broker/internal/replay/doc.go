// Package replay writes into a log's last file what only a journal may hold of it, or what only the page cache may hold: before the log is opened, and
// while it is recovered.
//
//  1. Everything from the mark on is written, whatever the file shows: after a failed sync a page may be on no platter.
//  2. It is written in place and never cut first. Doing it twice changes nothing.
//  3. Nothing is synced: the caller does.
//
// Called by commit (Log) and wal (Rewrite). Functions over a file system, without state.
package replay
