package sq

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
)

// Option changes how a Client works.
type Option func(*clientConfig)

type clientConfig struct {
	token, zone, clientID, software, clusterID string
	budget                                     int
	dial                                       func(ctx context.Context, network, addr string) (net.Conn, error)
	tls                                        *tls.Config
	tracers                                    trace.TracerProvider
	log                                        *slog.Logger
	backoffMin, backoffMax                     time.Duration
}

// Token authenticates the client; without it SQ_TOKEN does.
func Token(token string) Option { return func(c *clientConfig) { c.token = token } }

// Zone says where the client is; without it SQ_ZONE does.
func Zone(zone string) Option { return func(c *clientConfig) { c.zone = zone } }

// ClientID names the client in the cluster's logs and metrics.
func ClientID(id string) Option { return func(c *clientConfig) { c.clientID = id } }

// Software names the program beside the SDK: "billing/1.4".
func Software(name string) Option { return func(c *clientConfig) { c.software = name } }

// ClusterID makes every gateway of another cluster refuse the client.
func ClusterID(id string) Option { return func(c *clientConfig) { c.clusterID = id } }

// Budget bounds the bytes that the client buffers, MinBudget at least.
func Budget(bytes int) Option { return func(c *clientConfig) { c.budget = bytes } }

// TLS makes the client speak TLS.
func TLS(config *tls.Config) Option { return func(c *clientConfig) { c.tls = config } }

// Dialer makes the client's connections: proxies, tests, servers in the same process.
func Dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *clientConfig) { c.dial = dial }
}

// Tracers gives spans to; without it OpenTelemetry's global provider does.
func Tracers(provider trace.TracerProvider) Option {
	return func(c *clientConfig) { c.tracers = provider }
}

// Log gets a line where something is tried again, and a warning where acks are weaker than the topic asks for; without it nothing is logged.
func Log(log *slog.Logger) Option { return func(c *clientConfig) { c.log = log } }

// Backoff sets the pauses between attempts: the first, and the longest.
func Backoff(first, longest time.Duration) Option {
	return func(c *clientConfig) { c.backoffMin, c.backoffMax = first, longest }
}

// ProducerOption changes how a Producer works.
type ProducerOption func(*producerConfig)

type producerConfig struct {
	linger, deliveryTimeout time.Duration
	maxBuffered, batchBytes int
	codec                   batch.Codec
	ackNone                 bool
}

// Linger is how long a batch of asynchronous records waits for company before it is sent. 0 sends at once; while five batches of a
// partition are on their way, records gather anyway.
func Linger(d time.Duration) ProducerOption { return func(c *producerConfig) { c.linger = d } }

// MaxBuffered bounds the bytes that wait in this producer; the client's budget bounds them in any case.
func MaxBuffered(bytes int) ProducerOption { return func(c *producerConfig) { c.maxBuffered = bytes } }

// BatchBytes bounds a batch before compression; the topic's own limit bounds it in any case.
func BatchBytes(bytes int) ProducerOption { return func(c *producerConfig) { c.batchBytes = bytes } }

// Compression compresses batches.
func Compression(codec Codec) ProducerOption { return func(c *producerConfig) { c.codec = codec } }

// DeliveryTimeout ends the retries of records that come without a context (Go); 0 = never.
func DeliveryTimeout(d time.Duration) ProducerOption {
	return func(c *producerConfig) { c.deliveryTimeout = d }
}

// AckNone does not wait for the cluster: an Ack means that a leader was handed the record, with durability none and no offset. What was
// acknowledged so may be lost.
func AckNone() ProducerOption { return func(c *producerConfig) { c.ackNone = true } }

// SendOption changes how records are sent.
type SendOption func(*sendConfig)

type sendConfig struct {
	partition int // -1: by key, or spread
}

// ToPartition names the partition instead of the key.
func ToPartition(partition int) SendOption {
	return func(c *sendConfig) { c.partition = partition }
}

// ReadOption changes what Read and ReadBatches give.
type ReadOption func(*readConfig)

type readConfig struct {
	from, until Position
	partitions  []int
	readAhead   int
	reuse       bool
}

// From is where to begin; without it, Earliest.
func From(at Position) ReadOption { return func(c *readConfig) { c.from = at } }

// Until is where to end; without it the loop goes on for ever. Until(End) ends when all is read that was committed when the loop began.
// Until(Time(t)) with t in the future waits for that time.
func Until(at Position) ReadOption { return func(c *readConfig) { c.until = at } }

// Partitions reads only these; without it, all.
func Partitions(partitions ...int) ReadOption {
	return func(c *readConfig) { c.partitions = append(c.partitions, partitions...) }
}

// MaxBytes bounds what the reader holds that the loop has not taken. At least one answer is held in any case.
func MaxBytes(bytes int) ReadOption { return func(c *readConfig) { c.readAhead = bytes } }

// ReuseRecords gives the same Record again and again, and its bytes with it: what the loop wants to keep beyond a round it must copy.
// This costs no allocation a record.
func ReuseRecords() ReadOption { return func(c *readConfig) { c.reuse = true } }
