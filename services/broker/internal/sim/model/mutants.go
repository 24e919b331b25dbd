package model

// Mutants are the rules that can be removed, each by the name that Run takes.
func Mutants() []string {
	return append([]string{
		"no-fence-quorum", "choose-by-length", "volatile-promise", "accept-stale-append", "ack-before-fsync",
		"leader-counts-itself-before-fsync", "ack-before-activation", "no-epoch-start", "unguarded-activation", "fence-new-members-only",
		"base-from-electing", "truncate-to-hw", "match-whole-log", "count-stale-acks", "uncapped-hw", "cut-at-corruption",
		"wiped-disk-keeps-identity", "retry-fsync-after-EIO", "trust-pagecache-after-restart", "stale-durable-mark-after-truncate",
		"leader-resumes-own-epoch-after-restart",
	}, StorageMutants()...)
}

// StorageMutants are those that only a model with a journal, windows and rewriting in place can tell.
func StorageMutants() []string {
	return []string{
		"cut-before-rewrite", "redo-without-void", "truncate-without-barrier", "mark-not-reset",
		"recycle-without-sync", "no-commit-hint", "suspect-counts", "ragged-forgotten", "redo-only-what-differs",
	}
}

// Redundant are rules whose removal no seed shows, because another rule covers them; they stay as defence in depth. A stale Prepare that is
// answered meets the promise check of Append and the guard of the activation. A cut that is not durable before the next append is undone
// by a power cut at worst, and then redo and the chain tell the old suffix from the new entries.
func Redundant() []string { return []string{"answer-stale-prepare", "cut-not-durable"} }
