package upload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// Metrics of an Uploader.
type Metrics struct {
	uploads   prometheus.Counter
	bytes     prometheus.Counter
	committed prometheus.Counter
	failures  *prometheus.CounterVec
	seconds   prometheus.Histogram
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		uploads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_uploads_total", Help: "Segments that were put into the bucket, or proven to be there.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_upload_bytes_total", Help: "Bytes of the objects of these segments, footers included.",
		}),
		committed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_committed_segments_total", Help: "Uploaded segments that their partition's leader has committed to the tier table.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_tierer_upload_failures_total", Help: "Uploads that failed, by step: pull from the leader, put into the bucket. They are tried again.",
		}, []string{"step"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sq_tierer_upload_seconds", Help: "How long a segment took from the first byte asked of its leader to the end of its PUT.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		}),
	}
	return m, telemetry.Register(registry, m.uploads, m.bytes, m.committed, m.failures, m.seconds) //nolint:wrapcheck // says what was attempted.
}
