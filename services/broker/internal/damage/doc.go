// Package damage keeps what is known to be damaged in one replica's log, so that a restart does not forget it.
//
//  1. What recovery or a read has found is durable in the disk's journal before anything is appended behind it, or told to whoever reads.
//  2. A list gets shorter only when the bytes are good again: by a repair, or because the next life reads them.
//  3. That the end may have lost what was acknowledged (ragged) is kept until a leader's EpochStart is durable behind it.
//
// Called by replica, and by whoever repairs. Safe for concurrent use. It decides nothing: quorum says what a damaged replica may do.
package damage
