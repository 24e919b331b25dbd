package datadir

const (
	// findingsMax bounds what a report lists; the rest is counted.
	findingsMax = 1000
	// identMax bounds the ident of a replica.
	identMax = 4 << 10
)
