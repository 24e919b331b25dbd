package pid

import (
	"context"
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

// BlockSize is how many ids are taken from the store at once.
const BlockSize = 1 << 20

// Source gives out ids.
type Source struct {
	store topology.Store
	turn  chan struct{} // holds one token: whoever has it uses next and end
	next  uint64
	end   uint64
}

// New makes a Source with no block yet.
func New(store topology.Store) *Source {
	s := &Source{store: store, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Next gives an id. It waits for the store once in a block.
func (s *Source) Next(ctx context.Context) (uint64, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return 0, fault.Wrap("wait for a producer id", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	if s.next == s.end {
		if err := s.take(ctx); err != nil {
			return 0, err
		}
	}
	id := s.next
	s.next++
	return id, nil
}

// take gets a block from the store.
func (s *Source) take(ctx context.Context) error {
	for ctx.Err() == nil {
		kv, ok, _, err := s.store.Get(ctx, topology.PIDKey)
		if err != nil {
			return fault.Wrap("read "+topology.PIDKey, err)
		}
		block := topology.PIDBlock{V: topology.SchemaVersion, Next: 1}
		if ok {
			if block, err = topology.Decode[topology.PIDBlock](kv.Value); err != nil {
				return fault.Wrap("read "+topology.PIDKey, err)
			}
		}
		first := block.Next
		block.Next += BlockSize
		data, err := topology.Encode(block)
		if err != nil {
			return err //nolint:wrapcheck // a programming mistake, named by Encode.
		}
		result, err := s.store.Txn(ctx, []topology.Compare{{Key: topology.PIDKey, Want: kv.ModRevision}}, []topology.Op{{Key: topology.PIDKey, Value: data}})
		switch {
		case err == nil && result.Succeeded:
			s.next, s.end = first, block.Next
			return nil
		case err != nil && !errors.Is(err, topology.ErrUnavailable):
			return fault.Wrap("write "+topology.PIDKey, err)
		}
		// Lost to another broker, or unknown: then the next read shows where others are to go on.
	}
	return fault.Wrap("take a block of producer ids", ctx.Err())
}
