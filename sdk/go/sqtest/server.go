package sqtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// Limits of what a test may make.
const (
	maxTopics     = 1000
	maxPartitions = 1000
)

// Server is the whole cluster.
type Server struct {
	listener net.Listener
	server   *frame.Server
	cancel   context.CancelFunc
	running  sync.WaitGroup
	mu       struct {
		sync.Mutex
		topics     map[string]*topic // by "namespace/name"
		lastID     uint64
		lastPid    uint64
		faults     map[Call][]*fault
		calls      map[Call]int
		conns      map[string]net.Conn // by the client's address
		autoCreate int                 // partitions of a topic made on first use; 0 = none is made
		batchMax   int
		token      string
	}
}

type topic struct {
	namespace, name string
	id              uint64
	mapVersion      uint32
	ranges          []uint64 // hashFrom by partition
	partitions      []*partition
}

// New starts a server on a free port of the loopback. Close it.
func New() (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start test server: %w", err)
	}
	s := &Server{}
	s.mu.topics = make(map[string]*topic)
	s.mu.faults, s.mu.calls = make(map[Call][]*fault), make(map[Call]int)
	s.mu.conns = make(map[string]net.Conn)
	s.mu.autoCreate, s.mu.batchMax = 1, batch.DefaultMaxBytes
	s.listener = &listening{Listener: listener, server: s}
	s.server = frame.NewServer(frame.ServerConfig{Handler: s, Accept: s.accept})
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() { _ = s.server.Serve(ctx, s.listener) }) // it ends with ctx
	return s, nil
}

// Start starts a server that is closed when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.cancel()
	s.running.Wait()
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Client opens a client that is closed when the test ends.
func (s *Server) Client(t testing.TB, options ...sq.Option) *sq.Client {
	t.Helper()
	c, err := sq.Open(t.Context(), s.Addr(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// AutoCreate says how many partitions a topic gets that a producer names first; 0 = it is not found. The default is 1.
func (s *Server) AutoCreate(partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.autoCreate = min(partitions, maxPartitions)
}

// BatchBytesMax changes the largest batch that is taken.
func (s *Server) BatchBytesMax(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.batchMax = bytes
}

// CreateTopic makes a topic, "name" or "namespace/name". It panics if there is one.
func (s *Server) CreateTopic(name string, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.topics[full(name)] != nil || partitions < 1 || partitions > maxPartitions {
		panic(fmt.Sprintf("sqtest: create topic %s with %d partitions", name, partitions))
	}
	s.create(full(name), partitions)
}

// create needs mu.
func (s *Server) create(name string, partitions int) *topic {
	s.mu.lastID++
	t := &topic{id: s.mu.lastID, mapVersion: 1}
	t.namespace, t.name, _ = strings.Cut(name, "/")
	t.grow(partitions)
	s.mu.topics[name] = t
	return t
}

// grow makes the ranges of so many partitions, with the logs that are missing.
func (t *topic) grow(partitions int) {
	for len(t.partitions) < partitions {
		t.partitions = append(t.partitions, newPartition(batch.PartitionTag(0, t.id, uint32(len(t.partitions)))))
	}
	t.ranges = make([]uint64, partitions)
	for i := range t.ranges {
		t.ranges[i] = batch.HashFrom(i, partitions)
	}
}

// DeleteTopic forgets a topic. One of the same name made later is another.
func (s *Server) DeleteTopic(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.topics, full(name))
}

// Repartition gives a topic more partitions and new key ranges: batches that were routed by the old ones are refused.
func (s *Server) Repartition(name string, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.mu.topics[full(name)]
	if t == nil || partitions < len(t.partitions) || partitions > maxPartitions {
		panic(fmt.Sprintf("sqtest: give topic %s %d partitions", name, partitions))
	}
	t.mapVersion++
	t.grow(partitions)
}

// full gives a topic's name with its namespace.
func full(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "default/" + name
}

// partition finds a log for a test's own calls, and panics without.
func (s *Server) partition(name string, index int) *partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.mu.topics[full(name)]
	if t == nil || index < 0 || index >= len(t.partitions) {
		panic(fmt.Sprintf("sqtest: there is no %s/%d", name, index))
	}
	return t.partitions[index]
}

// Trim moves the start of a log: offsets below it are gone.
func (s *Server) Trim(name string, partition int, before int64) {
	s.partition(name, partition).trim(uint64(before))
}

// AppendControl appends a control batch, which takes an offset and holds no record.
func (s *Server) AppendControl(name string, partition int) {
	s.partition(name, partition).appendControl()
}

// Corrupt changes a bit in the body of the batch at offset.
func (s *Server) Corrupt(name string, partition int, offset int64) {
	s.partition(name, partition).corrupt(uint64(offset))
}

// End is behind the last offset of a log.
func (s *Server) End(name string, partition int) int64 {
	return int64(s.partition(name, partition).bounds().end)
}

// Values gives the values of all records of a topic, partition by partition: what is stored, whatever a client was told.
func (s *Server) Values(name string) [][]string {
	s.mu.Lock()
	t := s.mu.topics[full(name)]
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	out := make([][]string, len(t.partitions))
	for i, p := range t.partitions {
		out[i] = p.values()
	}
	return out
}

// DropConnections breaks every connection; clients come again.
func (s *Server) DropConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.mu.conns {
		_ = conn.Close()
	}
}

// dropConnection breaks one.
func (s *Server) dropConnection(remote net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn := s.mu.conns[remote.String()]; conn != nil {
		_ = conn.Close()
	}
}

// RequireToken refuses clients that come with another token from now on.
func (s *Server) RequireToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.token = token
}

func (s *Server) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.token != "" && hello.Token != s.mu.token {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_unauthenticated, "token is missing or wrong")
	}
	return frame.ServerInfo{ClusterID: "sqtest", Software: "sqtest"}, nil
}

// listening keeps the connections, so that they can be broken.
type listening struct {
	net.Listener

	server *Server
}

// Accept implements net.Listener.
func (l *listening) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.server.mu.conns[conn.RemoteAddr().String()] = conn
	return conn, nil
}

// errNotFound is what an unknown topic or partition is answered with.
var errNotFound = errors.New("no such topic or partition")

// find gives the log that a request names.
func (s *Server) find(hi, lo uint64, index uint32) (*topic, *partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.mu.topics {
		if hi == 0 && t.id == lo && int(index) < len(t.partitions) {
			return t, t.partitions[index], nil
		}
	}
	return nil, nil, errNotFound
}

// version gives the version of a topic's key ranges, and the largest batch.
func (s *Server) version(t *topic) (mapVersion uint32, batchMax int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.mapVersion, s.mu.batchMax
}
