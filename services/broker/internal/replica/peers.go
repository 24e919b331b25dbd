package replica

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

func (r *Replica) newOutbox() *outbox.Outbox {
	return outbox.New(outbox.Config{
		Partition: r.cfg.Partition, Self: r.cfg.Self, Log: r.wal, Peers: r.deps.Peers, Rate: r.deps.CatchUp, Logger: r.log,
		Do: r.urgent, Post: r.mail.Post, Later: r.after,
		EpochBefore: func(at partition.Offset) partition.Epoch { return r.core.EpochBefore(at) },
		Written:     func() partition.Offset { return r.core.Report().Written },
		Exported:    func() partition.Offset { return r.tier.exportedEnd },
	})
}

// urgent has a job done by a worker.
func (r *Replica) urgent(job func()) {
	r.inFlight.Add(1)
	r.deps.Workers.Do(func() { defer r.inFlight.Done(); job() })
}

// Deliver takes a message of another replica. Its bytes are the replica's until it releases them: when they are in the log, or not needed.
func (r *Replica) Deliver(d peer.Delivery) {
	if !r.mail.Post(func() { r.receive(d) }) {
		d.Release()
	}
}

func (r *Replica) receive(d peer.Delivery) {
	r.arrived = d.Release
	if r.failure == nil {
		r.step(quorum.Received{From: d.From, Message: d.Quorum})
		if _, ok := d.Quorum.(quorum.Append); ok && d.Exported > r.tier.exportedEnd && !r.core.Leads() {
			r.tier.exportedEnd, r.kept.due = d.Exported, true
		}
	}
	if r.arrived != nil {
		r.arrived()
		r.arrived = nil
	}
}

// index answers with the high watermark when it is certain that this replica leads, so that it covers everything acknowledged before the call.
func (r *Replica) index(answer func(partition.Offset, error)) {
	if !r.core.Leads() {
		answer(0, r.notLeader())
		return
	}
	r.reads.Add(answer)
	r.confirm()
}

// confirm begins a round for those who wait, if none is under way.
func (r *Replica) confirm() {
	if r.reads.Begin() {
		r.step(quorum.ReadIndex{})
	}
}

func (r *Replica) readIndexed(hw partition.Offset) {
	r.reads.Done(hw)
	r.mail.Post(r.confirm)
}
