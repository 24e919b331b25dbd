package peer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// reason is why a message was not sent.
type reason int

const (
	unreachable reason = iota // the broker is
	full                      // newer ones of its partition took its place
	lost                      // its connection ended before it was answered
	refused                   // the broker answered the frame with an error
	unsendable                // too large, or to this broker itself
	stopped                   // this broker is stopping
	merged                    // a queued one says it too
	reasons
)

func (r reason) String() string {
	return [reasons]string{"unreachable", "full", "lost", "refused", "unsendable", "stopped", "merged"}[r]
}

// metrics of both directions. Counters are bound once: the hot path looks nothing up.
type metrics struct {
	frames, messages, bytes prometheus.Counter
	dropped                 [reasons]prometheus.Counter
	unread                  prometheus.Counter
	dials, dialFailures     prometheus.Counter
	connections             prometheus.Gauge
	pings                   prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer, p *Peers) (*metrics, error) {
	m := &metrics{
		frames: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_frames_sent_total", Help: "Frames of replication messages that were sent to other brokers.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_messages_sent_total", Help: "Replication messages in these frames.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_body_sent_bytes_total", Help: "Bytes of batches in these frames.",
		}),
		unread: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_unreadable_bodies_total", Help: "Messages whose batches could not be read from the disk while they were sent.",
		}),
		dials: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_dials_total", Help: "Connections that were made to other brokers.",
		}),
		dialFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_dial_failures_total", Help: "Connections to other brokers that could not be made.",
		}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sq_broker_peer_connections_count", Help: "Connections to other brokers, two for each that something is sent to.",
		}),
		pings: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sq_broker_peer_ping_seconds", Help: "Time until a broker that shares a partition answered a ping.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
		}),
	}
	drops := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sq_broker_peer_messages_dropped_total", Help: "Replication messages that were not sent, by reason; those that matter are sent again.",
	}, []string{"reason"})
	for why := range reasons {
		m.dropped[why] = drops.WithLabelValues(why.String())
	}
	suspected := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sq_broker_peer_suspects_count", Help: "Brokers that share a partition and do not answer.",
	}, func() float64 { return float64(len(p.Suspects())) })
	err := telemetry.Register(registry, m.frames, m.messages, m.bytes, m.unread, m.dials, m.dialFailures, m.connections, m.pings, drops, suspected)
	return m, err //nolint:wrapcheck // says what was attempted.
}

// arrivals are the metrics of what comes.
type arrivals struct {
	frames, messages, bytes, damaged, malformed prometheus.Counter
}

func newArrivals(registry prometheus.Registerer) (*arrivals, error) {
	a := &arrivals{
		frames: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_frames_received_total", Help: "Frames of replication messages that came from other brokers.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_messages_received_total", Help: "Replication messages in these frames.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_body_received_bytes_total", Help: "Bytes of batches in these frames.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_messages_damaged_total", Help: "Replication messages that were dropped because their batches do not match their checksums.",
		}),
		malformed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_peer_frames_malformed_total", Help: "Frames that were refused whole for what they said; each is a bug.",
		}),
	}
	err := telemetry.Register(registry, a.frames, a.messages, a.bytes, a.damaged, a.malformed)
	return a, err //nolint:wrapcheck // says what was attempted.
}
