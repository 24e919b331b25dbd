package roster

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

var _ peer.Handler = (*Roster)(nil)

// Deliver implements peer.Handler: it gives a message to the replica that it is for.
func (r *Roster) Deliver(d peer.Delivery) {
	r.mu.RLock()
	var to *replica.Replica
	if h := r.mu.held[d.To.Replica]; h != nil && h.id == d.Partition && !h.deleted {
		to = h.r
	}
	r.mu.RUnlock()
	if to == nil {
		d.Release() // not here, or not open yet: asked again
		return
	}
	to.Deliver(d)
}

// Lost is a replica that this broker cannot serve and will not: its data is damaged or gone.
type Lost struct {
	Partition partition.ID
	Replica   partition.UUID
	Reason    string
}

// Lost lists the replicas that assignments name here and that are lost.
func (r *Roster) Lost() []Lost {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var lost []Lost
	for _, h := range r.mu.held {
		if h.standing > formerly && fault.Is(h.err, fault.Corrupt) {
			lost = append(lost, Lost{Partition: h.id, Replica: h.replica, Reason: h.err.Error()})
		}
	}
	return lost
}
