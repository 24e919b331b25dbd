package data

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Roles that may make a call.
const (
	gateway     = 1 << wirecapnp.Role_gateway
	tierer      = 1 << wirecapnp.Role_tierer
	coordinator = 1 << wirecapnp.Role_coordinator
	broker      = 1 << wirecapnp.Role_broker
)

// callKinds is how many members of Request this build knows.
const callKinds = int(wirecapnp.Request_Which_positions) + 1

func roleBit(role wirecapnp.Role) int { return 1 << role }

// row says for whom a call is, and who carries it out: now on the connection's goroutine without waiting, answering itself; or later on a
// goroutine of its own, answering itself unless it returns an error.
type row struct {
	roles int
	span  string
	now   func(*Server, context.Context, *call)
	later func(*Server, context.Context, *call) error
}

// table has a row for every call that a broker serves (doc.go 3).
//
//nolint:gochecknoglobals // a constant table: Go has no constant arrays.
var table = [callKinds]row{
	wirecapnp.Request_Which_publish:        {roles: gateway, span: "broker publish", now: (*Server).publish},
	wirecapnp.Request_Which_fetch:          {roles: gateway, span: "broker fetch", later: (*Server).fetch},
	wirecapnp.Request_Which_listOffsets:    {roles: gateway, span: "broker listOffsets", later: (*Server).listOffsets},
	wirecapnp.Request_Which_initProducer:   {roles: gateway, span: "broker initProducer", later: (*Server).initProducer},
	wirecapnp.Request_Which_seal:           {roles: gateway, span: "broker seal", later: (*Server).seal},
	wirecapnp.Request_Which_trim:           {roles: gateway, span: "broker trim", later: (*Server).trim},
	wirecapnp.Request_Which_partitionState: {roles: gateway | coordinator | tierer, span: "broker partitionState", later: (*Server).partitionState},
	wirecapnp.Request_Which_harvest:        {roles: tierer, span: "broker harvest", later: (*Server).harvest},
	wirecapnp.Request_Which_readSealed:     {roles: tierer, span: "broker readSealed", later: (*Server).readSealed},
	wirecapnp.Request_Which_tierTable:      {roles: tierer, span: "broker tierTable", later: (*Server).tierTable},
	wirecapnp.Request_Which_commitTier:     {roles: tierer, span: "broker commitTier", later: (*Server).commitTier},
	wirecapnp.Request_Which_exported:       {roles: tierer, span: "broker exported", later: (*Server).exported},
	wirecapnp.Request_Which_collected:      {roles: tierer, span: "broker collected", later: (*Server).collected},
	wirecapnp.Request_Which_peer:           {roles: broker, span: "broker peer", now: (*Server).peer},
	wirecapnp.Request_Which_positions:      {roles: coordinator, span: "broker positions", later: (*Server).positions},
}

// target is what most calls name.
type target interface {
	Topic() (batchcapnp.Uuid, error)
	Partition() uint32
	IsValid() bool
}

// partitionOf reads the partition that a call is about.
func partitionOf(in target, err error) (partition.ID, error) {
	if err != nil || !in.IsValid() {
		return partition.ID{}, unreadable(err)
	}
	topic, err := in.Topic()
	if err != nil || !topic.IsValid() {
		return partition.ID{}, fault.Errorf(fault.Invalid, "request names no topic")
	}
	return partition.ID{Topic: partition.UUIDOf(topic.Hi(), topic.Lo()), Index: partition.Index(in.Partition())}, nil
}

func unreadable(err error) error {
	if err == nil {
		return fault.Errorf(fault.Invalid, "request is unreadable: it has no content")
	}
	return fault.Errorf(fault.Invalid, "request is unreadable: %w", err)
}

// find reads the partition that a call is about and finds its replica.
func (s *Server) find(in target, err error) (Replica, partition.ID, error) {
	id, err := partitionOf(in, err)
	if err != nil {
		return nil, id, err
	}
	r, err := s.replica(id)
	return r, id, err
}

// setTopic writes a topic's id.
func setTopic(out interface {
	NewTopic() (batchcapnp.Uuid, error)
}, topic partition.UUID,
) error {
	id, err := out.NewTopic()
	if err != nil {
		return err //nolint:wrapcheck // frame wraps it: the answer cannot be built.
	}
	hi, lo := topic.Halves()
	id.SetHi(hi)
	id.SetLo(lo)
	return nil
}
