package moves

import (
	"maps"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

const (
	// looksCaught is how often in a row a replica must have had what there was at the look before.
	looksCaught = 2
	// silentMax is how long a replica that has not all there is may not have been heard to count as caught up.
	silentMax = 5 * time.Second
)

// Learning remembers how far the replicas of changing partitions were.
type Learning struct {
	looks map[partition.ID]look
}

type look struct {
	epoch  partition.Epoch
	high   partition.Offset
	streak map[partition.UUID]int
}

// NewLearning makes an empty one.
func NewLearning() *Learning { return &Learning{looks: map[partition.ID]look{}} }

// Take takes in what a leader says.
func (l *Learning) Take(id partition.ID, p survey.Progress) {
	last, was := l.looks[id]
	next := look{epoch: p.Epoch, high: p.HighWatermark, streak: map[partition.UUID]int{}}
	for replica, at := range p.Replicas {
		switch {
		case at.Match >= p.End: // to whom nothing is said nothing is to say
			next.streak[replica] = looksCaught
		case at.LastHeard > silentMax:
		case was && last.epoch == p.Epoch && at.Match >= last.high:
			next.streak[replica] = last.streak[replica] + 1
		}
	}
	l.looks[id] = next
}

// Caught tells whether a replica has caught up in an epoch.
func (l *Learning) Caught(id partition.ID, epoch partition.Epoch, replica partition.UUID) bool {
	last, was := l.looks[id]
	return was && last.epoch == epoch && last.streak[replica] >= looksCaught
}

// Keep forgets the others.
func (l *Learning) Keep(these map[partition.ID]struct{}) {
	maps.DeleteFunc(l.looks, func(id partition.ID, _ look) bool { _, kept := these[id]; return !kept })
}
