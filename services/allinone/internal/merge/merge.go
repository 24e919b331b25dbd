package merge

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Collector collects from registries. It describes nothing beforehand, so a registry takes what comes.
type Collector struct {
	mu struct {
		sync.Mutex

		sources map[string]source
	}
}

type source struct {
	gatherer prometheus.Gatherer
	labels   []*dto.LabelPair
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a collector without sources.
func New() *Collector {
	c := &Collector{}
	c.mu.sources = map[string]source{}
	return c
}

// Set adds a source under a name, or replaces it.
func (c *Collector) Set(name string, gatherer prometheus.Gatherer, labels map[string]string) {
	s := source{gatherer: gatherer}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		s.labels = append(s.labels, &dto.LabelPair{Name: new(key), Value: new(labels[key])})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sources[name] = s
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	sources := maps.Clone(c.mu.sources)
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		families, err := s.gatherer.Gather()
		if err != nil {
			out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				out <- newMetric(family, m, s.labels)
			}
		}
	}
}

// metric is a gathered metric that is passed on.
type metric struct {
	desc *prometheus.Desc
	is   *dto.Metric
}

func newMetric(family *dto.MetricFamily, m *dto.Metric, extra []*dto.LabelPair) metric {
	labels := append(slices.Clone(m.GetLabel()), extra...)
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.GetName()
	}
	return metric{
		desc: prometheus.NewDesc(family.GetName(), family.GetHelp(), names, nil),
		is: &dto.Metric{
			Label: labels, Gauge: m.GetGauge(), Counter: m.GetCounter(), Summary: m.GetSummary(), Untyped: m.GetUntyped(),
			Histogram: m.GetHistogram(), TimestampMs: m.TimestampMs, //nolint:protogetter // unset must stay unset.
		},
	}
}

// Desc implements prometheus.Metric.
func (m metric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m metric) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter, out.Summary, out.Untyped = m.is.GetLabel(), m.is.GetGauge(), m.is.GetCounter(), m.is.GetSummary(), m.is.GetUntyped()
	out.Histogram, out.TimestampMs = m.is.GetHistogram(), m.is.TimestampMs //nolint:protogetter // unset must stay unset.
	return nil
}
