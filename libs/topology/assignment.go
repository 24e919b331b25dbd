package topology

import (
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
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
	// Lineage is what the offsets belong to: another one begins with each forced recovery. Zero = there was none.
	Lineage partition.UUID `json:"lineage,omitzero"`
}

// Moving is a planned change of the member set. It has started when what is to be added is among the learners.
type Moving struct {
	Members []partition.Member `json:"members"` // the set to be
	Why     MoveReason         `json:"why"`
	Planned time.Time          `json:"planned"`
}

// MoveReason is why members are changed.
type MoveReason string

// Reasons to change members.
const (
	MoveReassign     MoveReason = "reassign"           // an operator named the brokers
	MoveFactor       MoveReason = "replication-factor" // the topic asks for another number of replicas
	MoveDecommission MoveReason = "decommission"       // the broker is to be taken away
	MoveLost         MoveReason = "lost"               // the replica has lost its data
	MoveDead         MoveReason = "dead"               // the broker was away for too long
)

// Nominate gives the assignment of the next epoch. Base becomes {epoch, members} from ACTIVE and stays from ELECTING (doc.go 3).
// The receiver is not changed.
func (a Assignment) Nominate(leader Leader, members []partition.Member) Assignment {
	next := a
	next.V = SchemaVersion
	next.Epoch = a.Epoch + 1
	next.Leader = leader
	next.Members = members
	next.Status = Electing
	if a.Status == Active || mutant.Is(mutant.BaseFromElecting) {
		next.Base = Base{Epoch: a.Epoch, Members: a.Members}
	}
	return next
}

// Plan gives the assignment with a change of members planned, and not started: epoch, leader and members stay. The receiver is not changed.
func (a Assignment) Plan(m Moving) Assignment {
	next := a
	next.V = SchemaVersion
	next.Moving = &m
	next.Learners = nil
	return next
}

// Teach gives the assignment in which the planned change has started: what is to be added learns. The receiver is not changed.
func (a Assignment) Teach() Assignment {
	next := a
	next.V = SchemaVersion
	next.Learners = a.Added()
	return next
}

// Stay gives the assignment without its planned change: the members are what they are. The receiver is not changed.
func (a Assignment) Stay() Assignment {
	next := a
	next.V = SchemaVersion
	next.Moving, next.Learners = nil, nil
	return next
}

// Reconfigure gives the assignment of the next epoch, with the planned members. Only what has learned may be among them. The receiver is not
// changed.
func (a Assignment) Reconfigure(leader Leader) Assignment {
	next := a.Nominate(leader, a.Moving.Members)
	next.Moving, next.Learners = nil, nil
	return next
}

// Added are the planned members that are none yet.
func (a Assignment) Added() []partition.Member {
	if a.Moving == nil {
		return nil
	}
	var added []partition.Member
	for _, m := range a.Moving.Members {
		if !slices.Contains(a.Members, m) {
			added = append(added, m)
		}
	}
	return added
}

// Started tells whether the planned change has: everything that it adds learns.
func (a Assignment) Started() bool { return a.Moving != nil && slices.Equal(a.Learners, a.Added()) }

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

// ReplicaOn finds the replica that a broker holds as a member or learner. Where it holds two it is the learner: the member it replaces has lost
// its data.
func (a Assignment) ReplicaOn(broker partition.NodeID) (partition.UUID, bool) {
	for _, set := range [][]partition.Member{a.Learners, a.Members} {
		for _, m := range set {
			if m.Broker == broker {
				return m.Replica, true
			}
		}
	}
	return partition.UUID{}, false
}

// MayBeEmpty tells whether a member or learner has certainly never acknowledged anything: its first epoch is not active yet. Without its data
// anybody else has lost it, and may not go on under its name.
func (a Assignment) MayBeEmpty(m partition.Member) bool {
	switch {
	case mutant.Is(mutant.WipedDiskKeepsName):
		return true
	case slices.Contains(a.Learners, m):
		return !slices.Contains(a.Members, m)
	case !slices.Contains(a.Members, m), a.Status != Electing:
		return false
	default:
		return a.Base.Epoch == 0 || !slices.Contains(a.Base.Members, m)
	}
}
