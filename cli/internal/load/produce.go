package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// ProduceConfig says what to publish.
type ProduceConfig struct {
	Topic      string
	RecordSize int // bytes of a value
	BatchBytes int // of values in a publish; at least one record
	InFlight   int // publishes of a client at a time
	Duration   time.Duration
	Codec      sq.Codec
	// Compressible fills values with repeating text instead of random bytes.
	Compressible bool
	// Partitions is how many the topic has where each publisher is to have a partition of its own, in turn; 0 = the SDK chooses.
	Partitions int
}

// Result of a run.
type Result struct {
	Records          int64         `json:"records"`
	Bytes            int64         `json:"bytes"` // of values
	Seconds          float64       `json:"seconds"`
	RecordsPerSecond float64       `json:"records_per_second"`
	BytesPerSecond   float64       `json:"bytes_per_second"`
	Latency          Latencies     `json:"latency_ms"`
	Durability       sq.Durability `json:"durability"` // the weakest that was reached
	Errors           int64         `json:"errors"`
	FirstError       string        `json:"first_error,omitempty"`
}

// meter counts what a run does. It is safe for concurrent use.
type meter struct {
	start   time.Time
	calls   histogram
	records atomic.Int64
	bytes   atomic.Int64
	errors  atomic.Int64

	mu struct {
		sync.Mutex

		durability sq.Durability
		some       bool
		first      error
		last       time.Time // the end of the last call that counted
	}
}

func (m *meter) done(start time.Time, records, bytes int64, durability sq.Durability) {
	end := time.Now()
	m.calls.add(end.Sub(start))
	m.records.Add(records)
	m.bytes.Add(bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.some || durability < m.mu.durability {
		m.mu.durability, m.mu.some = durability, true
	}
	m.mu.last = end
}

func (m *meter) failed(err error) {
	m.errors.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.first == nil {
		m.mu.first = err
	}
}

func (m *meter) result() Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Result{
		Records: m.records.Load(), Bytes: m.bytes.Load(), Latency: m.calls.latencies(), Durability: m.mu.durability, Errors: m.errors.Load(),
	}
	if m.mu.first != nil {
		r.FirstError = m.mu.first.Error()
	}
	if r.Records > 0 {
		r.Seconds = m.mu.last.Sub(m.start).Seconds()
	}
	if r.Seconds > 0 {
		r.RecordsPerSecond, r.BytesPerSecond = float64(r.Records)/r.Seconds, float64(r.Bytes)/r.Seconds
	}
	return r
}

// Produce publishes through the clients for the duration. The error is that of a run that could not begin.
func Produce(ctx context.Context, clients []*sq.Client, cfg ProduceConfig) (Result, error) {
	records := makeRecords(cfg)
	producers := make([]*sq.Producer, len(clients))
	for i, client := range clients {
		producers[i] = client.Producer(cfg.Topic, sq.Compression(cfg.Codec), sq.BatchBytes(batchLimit(cfg)), sq.Linger(0)) //nolint:contextcheck // it lives until Close.
		// The first record opens connections, finds the topic and may make it: that is not measured.
		if _, err := producers[i].Send(ctx, records[0]); err != nil {
			return Result{}, err //nolint:wrapcheck // names what was attempted.
		}
	}
	m := &meter{start: time.Now()}
	stop := m.start.Add(cfg.Duration)
	var running sync.WaitGroup
	publishers := 0
	for _, producer := range producers {
		for range cfg.InFlight {
			var to []sq.SendOption
			if cfg.Partitions > 0 {
				to = append(to, sq.ToPartition(publishers%cfg.Partitions))
			}
			publishers++
			running.Go(func() {
				for ctx.Err() == nil && time.Now().Before(stop) {
					publish(ctx, m, producer, records, to)
				}
			})
		}
	}
	running.Wait()
	var err error
	for _, producer := range producers {
		err = errors.Join(err, producer.Close(ctx))
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return m.result(), err
}

func publish(ctx context.Context, m *meter, producer *sq.Producer, records []sq.Record, to []sq.SendOption) {
	start := time.Now()
	results, err := producer.SendBatch(ctx, records, to...)
	if err != nil {
		if ctx.Err() == nil {
			m.failed(err)
		}
		return
	}
	weakest := results[0].Durability
	bytes := int64(0)
	for i := range results {
		weakest = min(weakest, results[i].Durability)
		bytes += int64(len(records[i].Value))
	}
	m.done(start, int64(len(records)), bytes, weakest)
}

// overhead of a batch and of each of its records beside the values, more than it is.
const (
	batchOverhead  = 4 << 10
	recordOverhead = 16
)

// batchLimit leaves room for one publish of the wanted size in one batch.
func batchLimit(cfg ProduceConfig) int {
	n := max(1, cfg.BatchBytes/max(1, cfg.RecordSize))
	return min(8<<20, n*(cfg.RecordSize+recordOverhead)+batchOverhead)
}

// makeRecords makes the records of one publish, which all publishes share.
func makeRecords(cfg ProduceConfig) []sq.Record {
	records := make([]sq.Record, max(1, cfg.BatchBytes/max(1, cfg.RecordSize)))
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret; the same load in each run.
	const text = "the quick brown fox jumps over the lazy dog and the seed queue keeps it. "
	for i := range records {
		value := make([]byte, cfg.RecordSize)
		for j := range value {
			if cfg.Compressible {
				value[j] = text[(i+j)%len(text)]
			} else {
				value[j] = byte(random.Uint32())
			}
		}
		records[i].Value = value
	}
	return records
}
