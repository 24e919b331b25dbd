package topology

import (
	"github.com/seedqueue/sq/libs/partition"
)

// Status of an assignment.
type Status string

// Statuses.
const (
	// Electing: the leader is nominated and may not serve.
	Electing Status = "ELECTING"
	// Active: the leader has recovered the log and serves.
	Active Status = "ACTIVE"
)

// startsMax is how many epoch starts an assignment keeps.
const startsMax = 32

// Leader is one process: its broker in one incarnation, with its replica.
type Leader struct {
	Broker      partition.NodeID      `json:"broker"`
	Incarnation partition.Incarnation `json:"incarnation"`
	Replica     partition.UUID        `json:"replica"`
}

// Base is the last activated epoch and its members: those whose majority a candidate fences.
type Base struct {
	Epoch   partition.Epoch    `json:"epoch"`
	Members []partition.Member `json:"members"`
}

// Start is where an activated epoch begins.
type Start struct {
	Epoch  partition.Epoch  `json:"epoch"`
	Offset partition.Offset `json:"offset"`
}

// Assignment is who leads a partition in which epoch with which members: the value of /sq/p/<topic>/<n>.
type Assignment struct {
	V        int                `json:"v"`
	Epoch    partition.Epoch    `json:"epoch"`
	Leader   Leader             `json:"leader"`
	Members  []partition.Member `json:"members"`
	Learners []partition.Member `json:"learners,omitempty"`
	Status   Status             `json:"status"`
	Base     Base               `json:"base"`
	Starts   []Start            `json:"starts,omitempty"`
	Moving   *Moving            `json:"moving,omitempty"`
}

// Moving is a planned change of the member set.
type Moving struct {
	Members []partition.Member `json:"members"`
}

// Nominate gives the assignment of the next epoch. Base becomes {epoch, members} from ACTIVE and stays from ELECTING (doc.go 3).
// The receiver is not changed.
func (a Assignment) Nominate(leader Leader, members []partition.Member) Assignment {
	next := a
	next.V = SchemaVersion
	next.Epoch = a.Epoch + 1
	next.Leader = leader
	next.Members = members
	next.Status = Electing
	if a.Status == Active {
		next.Base = Base{Epoch: a.Epoch, Members: a.Members}
	}
	return next
}

// Activate gives the assignment after its leader's EpochStart at offset is durable on a majority. The receiver is not changed.
func (a Assignment) Activate(offset partition.Offset) Assignment {
	next := a
	next.Status = Active
	starts := append(append([]Start(nil), a.Starts...), Start{Epoch: a.Epoch, Offset: offset})
	if len(starts) > startsMax {
		starts = starts[len(starts)-startsMax:]
	}
	next.Starts = starts
	return next
}

// First gives the assignment of a new partition: epoch 1, ELECTING, its base the same members with no epoch before.
func First(leader Leader, members []partition.Member) Assignment {
	return Assignment{
		V: SchemaVersion, Epoch: 1, Leader: leader, Members: members, Status: Electing,
		Base: Base{Epoch: 0, Members: members},
	}
}

// ReplicaOn finds the replica that a broker holds as a member or learner.
func (a Assignment) ReplicaOn(broker partition.NodeID) (partition.UUID, bool) {
	for _, set := range [][]partition.Member{a.Members, a.Learners} {
		for _, m := range set {
			if m.Broker == broker {
				return m.Replica, true
			}
		}
	}
	return partition.UUID{}, false
}
