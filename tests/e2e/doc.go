// Package e2e tests SQ as users meet it: built programs, the command, REST, real logs, bad input, kill −9.
//
// It is all tests. They run on real files (SQ_LOGS, or ../shared/data/logs beside the repository, if they are there) and on small ones in
// testdata that have the same shapes: CRLF, very long lines, no newline at the end, stray CR. They need no privileges and no network but
// 127.0.0.1, and build what they run.
package e2e
