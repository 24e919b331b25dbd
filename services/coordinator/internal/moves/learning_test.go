package moves_test

import (
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/coordinator/internal/moves"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// Who has what there was a look ago, twice in a row, has caught up; so has who has all there is, however long ago it was heard.
func TestCaughtUp(t *testing.T) {
	id, replica := partition.ID{Index: 1}, partition.UUIDOf(0, 1)
	type look struct {
		epoch            partition.Epoch
		high, end, match partition.Offset
		heard            time.Duration
		want             bool
	}
	for name, looks := range map[string][]look{
		"under load":       {{1, 100, 110, 50, 0, false}, {1, 200, 210, 100, 0, false}, {1, 300, 310, 200, 0, true}, {1, 400, 410, 299, 0, false}},
		"all of it":        {{1, 100, 100, 100, time.Hour, true}},
		"silent":           {{1, 100, 110, 100, 0, false}, {1, 100, 110, 100, time.Minute, false}, {1, 100, 110, 100, time.Minute, false}},
		"in another epoch": {{1, 100, 110, 100, 0, false}, {2, 100, 110, 100, 0, false}, {2, 100, 110, 100, 0, false}, {2, 100, 110, 100, 0, true}},
	} {
		l := moves.NewLearning()
		for i, at := range looks {
			l.Take(id, survey.Progress{Epoch: at.epoch, HighWatermark: at.high, End: at.end, Replicas: map[partition.UUID]survey.ReplicaProgress{
				replica: {Match: at.match, LastHeard: at.heard},
			}})
			if got := l.Caught(id, at.epoch, replica); got != at.want {
				t.Errorf("%s, look %d: %v", name, i, got)
			}
			if l.Caught(id, at.epoch+1, replica) {
				t.Errorf("%s, look %d: caught up in an epoch that was not asked about", name, i)
			}
		}
		l.Keep(nil)
		if l.Caught(id, looks[len(looks)-1].epoch, replica) {
			t.Errorf("%s: it is remembered", name)
		}
	}
}
