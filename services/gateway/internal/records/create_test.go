package records

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// creator adds what it is asked for to the View.
type creator struct{ world *world }

func (c creator) EnsureTopic(_ context.Context, name topology.Name) error {
	c.world.AddTopic(name.Topic, 1)
	return nil
}

func TestPublishCreatesAMissingTopicWhereThatIsAllowed(t *testing.T) {
	w := newWorld(t, 1)
	w.services[1].cfg.Creator = creator{w}
	missing := &datav1.PublishRequest{Topic: "missing", Records: text("a")}
	if _, err := w.services[0].Publish(t.Context(), missing); !fault.Is(err, fault.NotFound) {
		t.Fatalf("publish without a creator: %v", err)
	}
	bad := &datav1.PublishRequest{Topic: "missing", Records: []*datav1.NewRecord{{Headers: []*datav1.Header{{Name: ""}}}}}
	if _, err := w.services[1].Publish(t.Context(), bad); !fault.Is(err, fault.Invalid) {
		t.Fatalf("publish of a bad record: %v", err)
	}
	if _, err := w.services[0].Publish(t.Context(), missing); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a bad record created the topic: %v", err)
	}
	res, err := w.services[1].Publish(t.Context(), missing)
	if err != nil || res.GetResults()[0].GetError() != nil {
		t.Fatalf("publish with a creator: %v, %v", res, err)
	}
}

// A request that is sent again with its key has the same contents, whatever the time is by then.
func TestRepeatableTimes(t *testing.T) {
	now, given := time.Unix(100, 0), time.Unix(7, 0)
	plain := &datav1.NewRecord{}
	dated := &datav1.NewRecord{Timestamp: timestamppb.New(given)}
	if got := repeatable([]*datav1.NewRecord{plain, dated}, now); !got.Equal(given) {
		t.Errorf("with a time given: %v", got)
	}
	if got := repeatable([]*datav1.NewRecord{plain, plain}, now); !got.Equal(now) {
		t.Errorf("without: %v", got)
	}
}
