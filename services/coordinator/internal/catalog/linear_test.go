package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/election"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// call is one operation on a topic's name. value is what the topic is told by: no two writes have the same.
type call struct {
	what  string // create, delete, alter or look
	name  string
	value int64
}

// answer is what became of it.
type answer struct {
	unknown bool
	done    bool  // created, deleted, altered; looked: it exists
	value   int64 // looked
}

// registers is the model: a name is free (0) or has a value. What has no answer was done or not.
func registers() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byName := map[string][]porcupine.Operation{}
			for _, op := range history {
				name := op.Input.(call).name
				byName[name] = append(byName[name], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byName {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{int64(0)} },
		Step: func(state, input, output any) []any {
			now, in, out := state.(int64), input.(call), output.(answer)
			next, possible := now, now != 0
			switch in.what {
			case "create":
				next, possible = in.value, now == 0
			case "delete":
				// One that the store did not answer says done where the topic is gone, whoever took it away.
				next, possible = 0, now != 0 || out.done
			case "alter":
				next = in.value
			case "look":
				if out.unknown || out.done == (now != 0) && out.value == now {
					return []any{now}
				}
				return nil
			}
			switch {
			case out.unknown && possible:
				return []any{now, next}
			case out.unknown, !out.done && !possible:
				return []any{now}
			case out.done && possible:
				return []any{next}
			default:
				return nil
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}).ToModel()
}

// seat is the office of one coordinator, which believes in it until it is told to doubt.
type seat struct {
	store    topology.Store
	revision atomic.Int64
}

func (s *seat) Guard() (topology.Compare, error) {
	revision := s.revision.Load()
	if revision == 0 {
		return topology.Compare{}, election.ErrStandby
	}
	return topology.Compare{Key: topology.CoordinatorKey, Target: topology.CompareCreateRevision, Want: revision}, nil
}

func (s *seat) Doubt() {
	believed := s.revision.Load()
	if kv, _, _, err := s.store.Get(context.Background(), topology.CoordinatorKey); err == nil && kv.CreateRevision != believed {
		s.revision.CompareAndSwap(believed, 0)
	}
}

// contest is a store that fails now and then, and two coordinators that take the office from each other.
type contest struct {
	t        *testing.T
	store    *memstore.Store
	seats    [2]*seat
	catalogs [2]*catalog.Catalog
	start    time.Time
	mu       sync.Mutex
	history  []porcupine.Operation
	uuids    atomic.Uint64
}

func newContest(t *testing.T) *contest {
	c := &contest{t: t, store: memstore.New(clock.Real()), start: time.Now()}
	t.Cleanup(func() { _ = c.store.Close() })
	log := slog.New(slog.DiscardHandler)
	var following sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); following.Wait() })
	for i := range c.seats {
		follower := topology.NewFollower(c.store, log, clock.Real())
		following.Go(func() { _ = follower.Run(ctx) })
		c.seats[i] = &seat{store: c.store}
		c.catalogs[i] = catalog.New(catalog.Config{
			Store: c.store, Views: follower, Office: c.seats[i], Clock: clock.Real(), Log: log, Reports: reports.NewBook(), ReplicasDefault: 1,
			NewUUID: func() partition.UUID { return partition.UUIDOf(1, c.uuids.Add(1)) },
		})
	}
	claim, err := topology.ClaimBroker(t.Context(), c.store, 1, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Register(t.Context(), c.store, topology.RegisterParams{
		Key: topology.BrokerLiveKey(1), Live: topology.Live{ID: "1", Node: 1, Incarnation: claim.Incarnation}, TTL: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	c.elect(0)
	if err := c.catalogs[0].EnsureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// elect gives the office to one; the other believes in it for a while.
func (c *contest) elect(i int) {
	_, err := c.store.Txn(context.Background(), nil, []topology.Op{{Key: topology.CoordinatorKey, Delete: true}})
	if err != nil {
		return
	}
	result, err := c.store.Txn(context.Background(), nil, []topology.Op{{Key: topology.CoordinatorKey, Value: []byte(`{"v":1,"id":"x"}`)}})
	if err == nil {
		c.seats[i].revision.Store(result.Revision)
	}
}

// try makes a call of whoever takes it, as a gateway would, until its outcome is known or cannot be.
func (c *contest) try(random *rand.Rand, in call) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, unsure := fmt.Sprint(in.what, in.value), false
	for attempt := random.IntN(2); ; attempt++ {
		out, err := c.once(ctx, c.catalogs[attempt%2], in, request)
		unknown := fault.Is(err, fault.OutcomeUnknown) || in.what != "create" && in.what != "look" && fault.Is(err, fault.Unavailable) && !errors.Is(err, election.ErrStandby)
		unsure = unsure || unknown
		switch {
		case ctx.Err() != nil, unknown && attempt > 4:
			return answer{unknown: true}
		case unknown, fault.Is(err, fault.Unavailable), fault.Is(err, fault.Conflict):
			continue
		case err != nil:
			c.t.Errorf("%+v: %v", in, err)
			return answer{unknown: true}
		case unsure && in.what != "create" && !out.done: // whose attempt it was that took it away, nobody knows
			return answer{unknown: true}
		default:
			return out
		}
	}
}

// once is one attempt. What the name's state forbids is an answer and no error.
func (c *contest) once(ctx context.Context, cat *catalog.Catalog, in call, request string) (answer, error) {
	named := name(in.name)
	var err error
	switch in.what {
	case "create":
		_, err = cat.CreateTopic(ctx, catalog.CreateTopic{Topic: topology.Topic{Name: in.name, RetentionBytes: in.value}, RequestID: request})
		if fault.Is(err, fault.Exists) {
			return answer{}, nil
		}
	case "delete":
		err = cat.DeleteTopic(ctx, named, partition.UUID{})
	case "alter":
		_, err = cat.AlterTopic(ctx, catalog.AlterTopic{Name: named, Change: func(t *topology.Topic) error { t.RetentionBytes = in.value; return nil }})
	case "look":
		topics, _, err := cat.Topics(ctx, topology.DefaultNamespace, "", 1000)
		for _, topic := range topics {
			if topic.Value.Name == in.name {
				return answer{done: true, value: topic.Value.RetentionBytes}, err
			}
		}
		return answer{}, err
	}
	if fault.Is(err, fault.NotFound) {
		return answer{}, nil
	}
	return answer{done: err == nil}, err
}

func (c *contest) client(id int, calls int) {
	random := rand.New(rand.NewPCG(uint64(id), 1))
	for i := range calls {
		in := call{
			what:  []string{"create", "create", "delete", "alter", "look", "look"}[random.IntN(6)],
			name:  []string{"a", "b"}[random.IntN(2)],
			value: int64(1 + id*calls + i),
		}
		from := time.Since(c.start)
		out := c.try(random, in)
		until := time.Since(c.start)
		if out.unknown {
			until = time.Hour // it may still happen
		}
		c.mu.Lock()
		c.history = append(c.history, porcupine.Operation{ClientId: id, Input: in, Call: int64(from), Output: out, Return: int64(until)})
		c.mu.Unlock()
	}
}

// Creating, deleting, altering and listing topics is linearizable, while two coordinators take the office from each other and the store leaves
// answers out.
func TestTopicsAreLinearizable(t *testing.T) {
	c := newContest(t)
	var calls atomic.Uint64
	c.store.SetFaults(func(m memstore.Call) memstore.Fault {
		switch n := calls.Add(1); {
		case m.Method != memstore.Txn || m.Key == topology.CoordinatorKey:
			return memstore.None
		case n%23 == 0 && !strings.HasPrefix(m.Key, topology.TopicsPrefix):
			// Not of an alteration: without an etag it is made again, over what others did meanwhile.
			return memstore.Ambiguous
		case n%31 == 0:
			return memstore.Unavailable
		default:
			return memstore.None
		}
	})
	var clients sync.WaitGroup
	for id := range 5 {
		clients.Go(func() { c.client(id, 300) })
	}
	over := make(chan struct{})
	go func() { clients.Wait(); close(over) }()
	for i := 1; ; i++ {
		timer := time.NewTimer(300 * time.Microsecond)
		select {
		case <-timer.C:
			c.elect(i % 2)
			continue
		case <-over:
		}
		break
	}
	done := map[string]int{}
	for _, op := range c.history {
		if out := op.Output.(answer); out.done && !out.unknown {
			done[op.Input.(call).what]++
		}
	}
	t.Logf("%d calls, done %v", len(c.history), done)
	for _, what := range []string{"create", "delete", "alter", "look"} {
		if done[what] < 5 {
			t.Errorf("only %d times %s: the test shows little", done[what], what)
		}
	}
	if result, _ := porcupine.CheckOperationsVerbose(registers(), c.history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", result)
	}
}
