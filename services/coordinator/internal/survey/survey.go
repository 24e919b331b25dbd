package survey

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

const (
	// partitionsPerCall keeps a question and its answer far below a message's limit.
	partitionsPerCall = 1000
	// dialTimeout bounds a connection, which may outlive the question it was made for.
	dialTimeout = 3 * time.Second
)

// Position is where a replica stands.
type Position struct {
	Promised      partition.Epoch
	LastEpoch     partition.Epoch
	End           partition.Offset
	HighWatermark partition.Offset
	Faulty        bool // it cannot lead: damaged, suspect or quarantined
}

// Replica names one replica of a partition.
type Replica struct {
	Partition partition.ID
	ID        partition.UUID
}

// Positions are those that were told.
type Positions map[Replica]Position

// Question is what one broker is asked.
type Question struct {
	Broker     partition.NodeID
	Partitions []partition.ID
}

// Progress is how far the replicas of a partition are, as its leader says.
type Progress struct {
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	End           partition.Offset
	Replicas      map[partition.UUID]ReplicaProgress
}

// ReplicaProgress is how far one is.
type ReplicaProgress struct {
	Match     partition.Offset // up to here it has the leader's log on disk
	LastHeard time.Duration
}

// Views is the metadata as this process follows it.
type Views interface {
	View() *topology.View
}

// Config of a Surveyor.
type Config struct {
	Views   Views
	Network transport.Network
	ID      string // of this coordinator, told to the brokers
	Version string
}

// Surveyor asks.
type Surveyor struct {
	cfg  Config
	life context.Context //nolint:containedctx // of the connections, which Close ends.
	end  context.CancelFunc
	work sync.WaitGroup
	mu   struct {
		sync.Mutex

		links map[string]*link // by address
	}
}

// link is a connection that is being made, is there, or was not to be had.
type link struct {
	ready  chan struct{}
	client *frame.Client // set before ready, as err
	err    error
}

// New makes a Surveyor. Who asked for it closes it.
func New(cfg Config) *Surveyor {
	s := &Surveyor{cfg: cfg}
	s.life, s.end = context.WithCancel(context.Background())
	s.mu.links = map[string]*link{}
	return s
}

// Close ends all connections.
func (s *Surveyor) Close() {
	s.end()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, l := range s.mu.links {
		if l.client != nil {
			_ = l.client.Close() // calls get their error
		}
		delete(s.mu.links, addr)
	}
}

// Positions asks all brokers at once, until ctx ends. It gives what was told, and why a broker told nothing.
func (s *Surveyor) Positions(ctx context.Context, questions []Question) (Positions, map[partition.NodeID]error) {
	told, failed := Positions{}, map[partition.NodeID]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, q := range questions {
		asked.Go(func() {
			answers, err := s.positions(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for replica, at := range answers {
				told[replica] = at
			}
			if err != nil {
				failed[q.Broker] = err
			}
		})
	}
	asked.Wait()
	return told, failed
}

// positions asks one broker, in pipelined parts.
func (s *Surveyor) positions(ctx context.Context, q Question) (Positions, error) {
	client, err := s.client(ctx, q.Broker)
	if err != nil {
		return nil, err
	}
	type part struct {
		ids     []partition.ID
		pending *frame.Pending
	}
	var parts []part
	var failed error
	for from := 0; from < len(q.Partitions) && failed == nil; from += partitionsPerCall {
		ids := q.Partitions[from:min(from+partitionsPerCall, len(q.Partitions))]
		pending, err := client.Start(ctx, func(r wirecapnp.Request) error { return writeQuestion(r, ids) })
		if err != nil {
			failed = fmt.Errorf("ask for positions: %w", err)
			break
		}
		parts = append(parts, part{ids, pending})
	}
	told := Positions{}
	for _, p := range parts {
		reply, err := p.pending.Wait(ctx)
		if err != nil {
			failed = fmt.Errorf("wait for positions: %w", err)
			continue
		}
		if err := readPositions(reply, p.ids, told); err != nil {
			failed = fmt.Errorf("read positions: %w", err)
		}
		reply.Release()
	}
	return told, failed
}

// Progress asks a broker that leads a partition.
func (s *Surveyor) Progress(ctx context.Context, leader partition.NodeID, id partition.ID) (Progress, error) {
	client, err := s.client(ctx, leader)
	if err != nil {
		return Progress{}, err
	}
	reply, err := client.Call(ctx, func(r wirecapnp.Request) error {
		in, err := r.NewPartitionState()
		if err != nil {
			return fmt.Errorf("make question: %w", err)
		}
		in.SetPartition(uint32(id.Index))
		topic, err := in.NewTopic()
		if err != nil {
			return fmt.Errorf("make question: %w", err)
		}
		setUUID(topic, id.Topic)
		return nil
	})
	if err != nil {
		return Progress{}, fmt.Errorf("ask for a partition's state: %w", err)
	}
	defer reply.Release()
	return readProgress(reply)
}

func writeQuestion(r wirecapnp.Request, ids []partition.ID) error {
	in, err := r.NewPositions()
	if err != nil {
		return fmt.Errorf("make question: %w", err)
	}
	list, err := in.NewPartitions(int32(len(ids))) //nolint:gosec // within partitionsPerCall.
	if err != nil {
		return fmt.Errorf("make question: %w", err)
	}
	for i, id := range ids {
		list.At(i).SetPartition(uint32(id.Index))
		topic, err := list.At(i).NewTopic()
		if err != nil {
			return fmt.Errorf("make question: %w", err)
		}
		setUUID(topic, id.Topic)
	}
	return nil
}

func readPositions(reply *frame.Reply, ids []partition.ID, to Positions) error {
	out, err := reply.Response.Positions()
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it is.
	}
	list, err := out.Positions()
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it is.
	}
	for i := range min(list.Len(), len(ids)) {
		at := list.At(i)
		if !at.Known() {
			continue
		}
		replica, err := at.Replica()
		if err != nil {
			return err //nolint:wrapcheck // the caller says what it is.
		}
		to[Replica{ids[i], uuidOf(replica)}] = Position{
			Promised: partition.Epoch(at.Promised()), LastEpoch: partition.Epoch(at.LastEpoch()), End: partition.Offset(at.End()),
			HighWatermark: partition.Offset(at.HighWatermark()), Faulty: at.Faulty(),
		}
	}
	return nil
}

func readProgress(reply *frame.Reply) (Progress, error) {
	state, err := reply.Response.PartitionState()
	if err != nil {
		return Progress{}, fmt.Errorf("read a partition's state: %w", err)
	}
	out := Progress{
		Epoch: partition.Epoch(state.Epoch()), HighWatermark: partition.Offset(state.HighWatermark()), End: partition.Offset(state.End()),
		Replicas: map[partition.UUID]ReplicaProgress{},
	}
	list, err := state.Replicas()
	if err != nil {
		return Progress{}, fmt.Errorf("read a partition's state: %w", err)
	}
	for i := range list.Len() {
		replica, err := list.At(i).Replica()
		if err != nil {
			return Progress{}, fmt.Errorf("read a partition's state: %w", err)
		}
		out.Replicas[uuidOf(replica)] = ReplicaProgress{
			Match: partition.Offset(list.At(i).Match()), LastHeard: time.Duration(list.At(i).LastHeardMillis()) * time.Millisecond, //nolint:gosec // a hint.
		}
	}
	return out, nil
}

func setUUID(to batchcapnp.Uuid, id partition.UUID) {
	hi, lo := id.Halves()
	to.SetHi(hi)
	to.SetLo(lo)
}

func uuidOf(from batchcapnp.Uuid) partition.UUID { return partition.UUIDOf(from.Hi(), from.Lo()) }
