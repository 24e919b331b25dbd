package survey

import (
	"context"
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// client gives a connection to a broker that lives, within ctx.
func (s *Surveyor) client(ctx context.Context, broker partition.NodeID) (*frame.Client, error) {
	live := s.cfg.Views.View().Brokers[broker].Live
	if live == nil || live.Value.Capnp == "" {
		return nil, fault.Errorf(fault.Unavailable, "connect to broker %d: it is not live", broker)
	}
	l := s.link(live.Value.Capnp) //nolint:contextcheck // the connection outlives the question.
	select {
	case <-l.ready:
		return l.client, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to broker %d: %w", broker, ctx.Err())
	}
}

// link gives the connection to an address, and makes it where there is none that works.
func (s *Surveyor) link(addr string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.links[addr]
	if l != nil && !l.spent() {
		return l
	}
	s.tidy()
	made := &link{ready: make(chan struct{})}
	s.mu.links[addr] = made
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, dialTimeout)
		defer cancel()
		made.client, made.err = s.dial(ctx, addr)
		close(made.ready)
	})
	return made
}

// tidy drops connections that no longer work, lest brokers that moved leave theirs behind.
func (s *Surveyor) tidy() {
	for addr, l := range s.mu.links {
		if l.spent() {
			if l.client != nil {
				_ = l.client.Close() // it has failed already
			}
			delete(s.mu.links, addr)
		}
	}
}

// spent tells whether new questions need another connection.
func (l *link) spent() bool {
	select {
	case <-l.ready:
		return l.err != nil || l.client.Err() != nil || l.client.GoingAway()
	default:
		return false
	}
}

func (s *Surveyor) dial(ctx context.Context, addr string) (*frame.Client, error) {
	conn, err := s.cfg.Network.Dial(ctx, addr)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "connect to %s: %w", addr, err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{}) //nolint:contextcheck // the connection outlives the question.
	_, err = client.Hello(ctx, frame.HelloParams{
		Role: wirecapnp.Role_coordinator, ClientID: s.cfg.ID, Software: "sq-coordinator/" + s.cfg.Version,
		ClusterID: s.cfg.Views.View().Cluster.Value.ID.String(),
	})
	if err != nil {
		_ = client.Close() // the failed Hello is what counts
		return nil, fault.Errorf(fault.Unavailable, "say hello to %s: %w", addr, err)
	}
	return client, nil
}
