package coldread

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/services/tierer/internal/blockcache"
)

// Metrics of a Reader.
type Metrics struct {
	registry *prometheus.Registry
	gets     prometheus.Counter
	getBytes prometheus.Counter
	rereads  prometheus.Counter
	corrupt  prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		registry: registry,
		gets: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_gets_total", Help: "Range reads of objects for cold reads: blocks of 1 MiB, and footers.",
		}),
		getBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_get_bytes_total", Help: "Bytes that cold reads have got from the bucket.",
		}),
		rereads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_rereads_total", Help: "Range reads that were repeated because what came was damaged.",
		}),
		corrupt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_corrupt_total", Help: "Objects that were found damaged twice, or not to be what the tier table or their index says.",
		}),
	}
	return m, telemetry.Register(registry, m.gets, m.getBytes, m.rereads, m.corrupt) //nolint:wrapcheck // says what was attempted.
}

// watch registers what the block cache counts. Of a registry only the first reader's is shown.
func (m *Metrics) watch(stats func() blockcache.Stats) {
	for _, c := range []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_tierer_blockcache_hits_total", Help: "Blocks that cold reads found in the cache.",
		}, func() float64 { return float64(stats().Hits) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_tierer_blockcache_misses_total", Help: "Blocks that cold reads did not find in the cache; those that were under way already count too.",
		}, func() float64 { return float64(stats().Misses) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_tierer_blockcache_bytes", Help: "Bytes in the block cache.",
		}, func() float64 { return float64(stats().Bytes) }),
	} {
		_ = m.registry.Register(c) // twice only where a test makes two readers
	}
}
