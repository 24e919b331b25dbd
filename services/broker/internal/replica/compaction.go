package replica

import (
	"context"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/compaction"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func (r *Replica) newCompaction() *compaction.Compaction {
	return compaction.New(compaction.Host{
		Log: r.wal, Table: r.fold.Tier, Turn: r.deps.Compact, Metrics: r.deps.Metrics.compaction, Logger: r.log,
		Marked: func() partition.Offset { return r.tier.marked }, Bulk: r.bulk,
		Run: func(pass func(context.Context)) { r.errands.Go(pass) }, Post: r.mail.Post, Later: r.later, Fail: r.fail,
		Install: func(x *segment.Index, sum [32]byte, done func(error)) {
			r.io.Change(func() error { return r.wal.InstallCompacted(x, sum) }, done)
		},
		Commit: func(s sealed.Seal, done func(error)) {
			r.request(petition.Petition{Done: done, Decide: func() (func(batchcapnp.Control) error, error) {
				return func(c batchcapnp.Control) error { return sealed.FillCompact(c, s) }, r.fold.Tier.CheckCompact(s)
			}})
		},
	})
}

// bulk has a job done by a bulk worker.
func (r *Replica) bulk(job func()) {
	r.inFlight.Add(1)
	r.deps.Workers.DoBulk(func() { defer r.inFlight.Done(); job() })
}
