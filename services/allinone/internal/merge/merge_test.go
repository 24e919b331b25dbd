package merge_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/seedqueue/sq/services/allinone/internal/merge"
)

func counters(t *testing.T, value float64) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sq_broker_records_total", Help: "Records."}, []string{"topic"})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sq_broker_sync_seconds", Help: "Syncs.", Buckets: []float64{1}})
	registry.MustRegister(counter, histogram)
	counter.WithLabelValues("orders").Add(value)
	histogram.Observe(0.5)
	return registry
}

func show(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestLabelsKeepSourcesApart(t *testing.T) {
	all := prometheus.NewRegistry()
	c := merge.New()
	all.MustRegister(c)
	c.Set("a", counters(t, 1), map[string]string{"service": "broker", "instance": "1"})
	c.Set("b", counters(t, 2), map[string]string{"service": "broker", "instance": "2"})
	c.Set("b", counters(t, 3), map[string]string{"service": "broker", "instance": "2"})
	want := `sq_broker_records_total{instance="1",service="broker",topic="orders"} 1
sq_broker_records_total{instance="2",service="broker",topic="orders"} 3
sq_broker_sync_seconds_bucket{instance="1",service="broker",le="1"} 1
sq_broker_sync_seconds_bucket{instance="1",service="broker",le="+Inf"} 1
sq_broker_sync_seconds_sum{instance="1",service="broker"} 0.5
sq_broker_sync_seconds_count{instance="1",service="broker"} 1
sq_broker_sync_seconds_bucket{instance="2",service="broker",le="1"} 1
sq_broker_sync_seconds_bucket{instance="2",service="broker",le="+Inf"} 1
sq_broker_sync_seconds_sum{instance="2",service="broker"} 0.5
sq_broker_sync_seconds_count{instance="2",service="broker"} 1
`
	if diff := cmp.Diff(want, show(t, all)); diff != "" {
		t.Error(diff)
	}
}
