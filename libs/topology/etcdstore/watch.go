package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seedqueue/sq/libs/topology"
)

var errWatchClosed = errors.New("watch closed by the client")

// Watch implements topology.Store. fromRevision 0 = from the next change on. Its goroutine ends with ctx or with the client.
func (s *Store) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan topology.Events {
	out := make(chan topology.Events)
	go func() {
		defer close(out)
		// The client keeps a watch alive until its context ends: also where this one is broken.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answers := s.client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(fromRevision))
		var end error
		for answer := range answers {
			if end = answer.Err(); end != nil {
				break
			}
			for _, events := range split(answer.Events) {
				select {
				case out <- events:
				case <-ctx.Done():
					return
				}
			}
		}
		if end == nil {
			end = errWatchClosed
		}
		select {
		case out <- topology.Events{Err: readError("watch "+prefix, end)}:
		case <-ctx.Done():
		}
	}()
	return out
}

// split groups events, which come in revision order, by revision.
func split(events []*clientv3.Event) []topology.Events {
	var all []topology.Events
	for _, event := range events {
		revision := event.Kv.ModRevision
		if len(all) == 0 || all[len(all)-1].Revision != revision {
			all = append(all, topology.Events{Revision: revision})
		}
		last := &all[len(all)-1]
		if event.Type == clientv3.EventTypeDelete {
			last.Changes = append(last.Changes, topology.Change{
				KV: topology.KV{Key: string(event.Kv.Key), ModRevision: revision}, Deleted: true,
			})
			continue
		}
		last.Changes = append(last.Changes, topology.Change{KV: fromEtcd(event.Kv)})
	}
	return all
}

func fromEtcd(kv *mvccpb.KeyValue) topology.KV {
	return topology.KV{
		Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
		Version: kv.Version, Lease: topology.LeaseID(kv.Lease),
	}
}
