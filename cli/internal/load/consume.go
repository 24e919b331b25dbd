package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// ConsumeConfig says what to read.
type ConsumeConfig struct {
	Topic    string
	Duration time.Duration // at most
}

// Consume reads the topic from its beginning with each client, to its end or for the duration. The latency is the wait for a batch.
func Consume(ctx context.Context, clients []*sq.Client, cfg ConsumeConfig) (Result, error) {
	timed, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	m := &meter{start: time.Now()}
	errs := make([]error, len(clients))
	var running sync.WaitGroup
	for i, client := range clients {
		running.Go(func() { errs[i] = readAll(timed, m, client, cfg.Topic) })
	}
	running.Wait()
	err := errors.Join(errs...)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case timed.Err() != nil: // to be cut off is how it ends
		err = nil
	}
	return m.result(), err
}

func readAll(ctx context.Context, m *meter, client *sq.Client, topic string) error {
	var r sq.Record
	asked := time.Now()
	for b, err := range client.ReadBatches(ctx, topic, sq.Until(sq.End)) {
		if err != nil {
			return err
		}
		bytes := int64(0)
		for i := range b.Len() {
			b.Record(i, &r)
			bytes += int64(len(r.Value))
		}
		m.done(asked, int64(b.Len()), bytes, b.Durability)
		asked = time.Now()
	}
	return nil
}
