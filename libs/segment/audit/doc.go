// Package audit reads the log of a replica offline, every byte of it, and says what is wrong and where.
//
//  1. It changes nothing, and needs nothing but the directory.
//  2. Damage is what a crash cannot leave: bytes that were proven durable and are not what was written, files that contradict each other. What
//     a crash does leave (a torn end, an unfinished file, a missing index) is a note.
//  3. Whatever the files hold, it reads them once and in bounded memory.
//
// Called by `sq inspect verify` and by tests of whoever writes logs. The broker must not run, else what is being written looks torn. Functions;
// safe for concurrent use. It does not read the journal: without its marks, damage at the very end can look torn.
package audit
