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
		"cut-before-rewrite", "redo-without-void", "truncate-without-barrier", "mark-not-reset", "cut-not-durable",
		"recycle-without-sync", "no-commit-hint", "suspect-counts", "ragged-forgotten", "redo-only-what-differs", "mark-goes-back",
	}
}

// Redundant are rules whose removal no seed shows: another rule covers them. They stay as defence in depth.
func Redundant() []string { return []string{"answer-stale-prepare"} }
