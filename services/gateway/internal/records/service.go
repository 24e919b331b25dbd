package records

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// Config is what a Service is made of.
type Config struct {
	Router  route.Router
	Creator route.Creator // nil: a publish to a missing topic fails
	Clock   clock.Clock
	Limits  Limits
	Publish *upstream.Caller        // for publishes, shared by all
	Reader  func() *upstream.Caller // makes connections for one Fetch at a time
}

// Service implements datav1.DataServiceServer.
type Service struct {
	datav1.UnimplementedDataServiceServer

	cfg    Config
	spread atomic.Uint32 // where the next request without keys goes
	mu     struct {
		sync.Mutex
		idle   []*upstream.Caller
		closed bool
	}
}

// New makes a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Close ends the idle connections. Calls must have ended.
func (s *Service) Close() {
	s.mu.Lock()
	idle := s.mu.idle
	s.mu.idle, s.mu.closed = nil, true
	s.mu.Unlock()
	for _, reader := range idle {
		reader.Close()
	}
}

// reader lends connections. done takes them back; clean says that no answer is outstanding for long.
func (s *Service) reader() (reader *upstream.Caller, done func(clean bool)) {
	s.mu.Lock()
	if n := len(s.mu.idle); n > 0 {
		reader = s.mu.idle[n-1]
		s.mu.idle = s.mu.idle[:n-1]
	}
	s.mu.Unlock()
	if reader == nil {
		reader = s.cfg.Reader()
	}
	return reader, func(clean bool) {
		s.mu.Lock()
		keep := clean && !s.mu.closed && len(s.mu.idle) < s.cfg.Limits.IdleReaders
		if keep {
			s.mu.idle = append(s.mu.idle, reader)
		}
		s.mu.Unlock()
		if !keep {
			reader.Close()
		}
	}
}

// topic finds a topic by its name in the API; creator creates a missing one, nil = nobody does.
func (s *Service) topic(ctx context.Context, namespace, name string, creator route.Creator) (topology.Topic, error) {
	if namespace == "" {
		namespace = topology.DefaultNamespace
	}
	_, topic, err := s.cfg.Router.Ensure(ctx, topology.Name{Namespace: namespace, Topic: name}, creator)
	return topic, err
}

// partitionOf checks a partition's number.
func partitionOf(topic topology.Topic, index int32) (partition.ID, error) {
	if index < 0 || uint32(index) >= topic.Partitions {
		return partition.ID{}, fault.Errorf(fault.Invalid, "partition: topic %s has partitions 0 to %d, not %d", topic.FullName(), topic.Partitions-1, index)
	}
	return partition.ID{Topic: topic.ID, Index: partition.Index(index)}, nil
}

func (s *Service) sealer() cursor.Sealer { return cursor.NewSealer(s.cfg.Router.Table().ClusterID()) }
