package peer

import "github.com/seedqueue/sq/services/broker/internal/quorum"

// merge lets a queued message say what a newer one says, where that is all it says.
func merge(old, newer *Message) bool {
	if old.To != newer.To || old.From != newer.From || newer.Body != nil {
		return false
	}
	switch m := newer.Quorum.(type) {
	case quorum.AppendOK:
		o, ok := old.Quorum.(quorum.AppendOK)
		if !ok || o.Epoch != m.Epoch || m.Match < o.Match || m.Written < o.Written || m.Round < o.Round || m.HighWatermark < o.HighWatermark {
			return false
		}
		old.Quorum = m
		return true
	case quorum.Append:
		return mergeAppend(old, newer, m)
	default:
		return false
	}
}

// mergeAppend takes in an Append without batches: it replaces another one, and its high watermark rides with the batches that it follows.
func mergeAppend(old, newer *Message, m quorum.Append) bool {
	o, ok := old.Quorum.(quorum.Append)
	if !ok || o.Epoch != m.Epoch || m.Prev != m.Until || m.HighWatermark < o.HighWatermark || m.Round < o.Round {
		return false
	}
	switch {
	case old.Body == nil && o.Prev == o.Until && o.Prev <= m.Prev:
		o = m
	case old.Body != nil && o.Until == m.Prev:
		o.HighWatermark, o.Round = m.HighWatermark, m.Round
	default:
		return false
	}
	old.Quorum, old.Exported = o, max(old.Exported, newer.Exported)
	return true
}
