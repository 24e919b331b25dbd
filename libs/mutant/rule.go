package mutant

// Rule is a rule that can be removed.
type Rule uint8

// The rules, in the order of docs/operations/proof.md.
const (
	None                 Rule = iota
	AckBeforeFsync            // a follower acknowledges what is written
	TruncateToHW              // who promises a later epoch cuts its log at its high watermark
	LeaderCountsUnsynced      // the leader counts itself before its own sync
	NoFenceQuorum             // a candidate asks nobody
	FenceNewMembers           // the new members are fenced, not those of the base
	BaseFromElecting          // the base follows an epoch that was never active
	AckBeforeActivation       // a candidate leads before its compare-and-swap
	AcceptStaleAppend         // appends below the promise are taken
	NoEpochStart              // what earlier epochs left is committed by counting
	UnguardedActivation       // the activation does not compare
	ChooseByLength            // the longest log is chosen, not the latest
	WipedDiskKeepsName        // an empty disk goes on under the replica's name
	DurableMarkKept           // the durable mark survives a truncation (R1)
	MatchWholeLog             // a follower's match is the end of its log
	CountOtherEpochs          // acknowledgements of another epoch count (R4)
	UncappedHW                // a follower's high watermark is not capped at what it verified
	VolatilePromise           // a promise is not persisted
	ResumeOwnEpoch            // a restarted leader takes its epoch up again (R2)
	RetryFsync                // a failed fsync is tried again
	TrustPageCache            // recovery does not rewrite what may only be in the page cache
	CutBeforeRewrite          // recovery cuts the tail before it writes it again (R3)
	CutAtCorruption           // a log ends at its first bad batch
	Last
)
