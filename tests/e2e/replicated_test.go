package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/cluster"
)

// stream sends files line by line to topics with three replicas, each line when the one before is acknowledged, again and again until it is told
// to end behind a whole file. No send may fail, whatever else happens.
type stream struct {
	t       *testing.T
	c       *cluster.Cluster
	files   []input
	sending sync.WaitGroup
	end     chan struct{} // closed: it ends
	acks    atomic.Int64
	mu      sync.Mutex
	rounds  []int           // how often each file is in its topic
	slow    []time.Duration // the longest waits for an ack since the last look
}

func newStream(t *testing.T, c *cluster.Cluster) *stream {
	t.Helper()
	s := &stream{t: t, c: c, files: inputs(t), end: make(chan struct{})}
	s.files = slices.DeleteFunc(s.files, func(in input) bool { return len(in.content) == 0 })
	s.rounds = make([]int, len(s.files))
	client, err := sq.Open(t.Context(), c.DataAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		_ = client.Close()
	})
	for i, in := range s.files {
		c.MustSQ(t, "topic", "create", in.topic, "--replication-factor", "3", "--segment-bytes", "256KiB")
		s.sending.Go(func() { s.send(client.Producer(in.topic), i) })
	}
	return s
}

func (s *stream) send(producer *sq.Producer, i int) {
	for {
		for n, line := range s.files[i].lines() {
			ctx, cancel := context.WithTimeout(s.t.Context(), sendTimeout)
			began := time.Now()
			ack, err := producer.Send(ctx, sq.Record{Value: line})
			took := time.Since(began)
			cancel()
			if err != nil {
				s.t.Errorf("%s: line %d, round %d, after %v: %v", s.files[i].topic, n, s.rounds[i], took, err)
				return
			}
			if ack.Durability != sq.FsyncQuorum {
				s.t.Errorf("%s: line %d is acknowledged with durability %v", s.files[i].topic, n, ack.Durability)
			}
			s.acks.Add(1)
			s.mu.Lock()
			s.slow = append(s.slow, took)
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.rounds[i]++
		s.mu.Unlock()
		select {
		case <-s.end:
			return
		default:
		}
	}
}

// stop ends it and waits until the last file is whole.
func (s *stream) stop() {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
	s.sending.Wait()
}

// await returns when n more lines are acknowledged.
func (s *stream) await(n int64) {
	s.t.Helper()
	from := s.acks.Load()
	eventually(s.t, 2*sendTimeout, func() bool { return s.acks.Load() >= from+n || s.t.Failed() }, func() any { return s.acks.Load() })
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// worst gives the longest wait for an ack since the last call.
func (s *stream) worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := slices.Max(append(s.slow, 0))
	s.slow = s.slow[:0]
	return worst
}

// during lets acks come before, while and after something happens, and says how long the slowest took.
func (s *stream) during(what string, do func()) {
	s.t.Helper()
	const acks = 300
	s.await(acks)
	_ = s.worst()
	do()
	s.await(acks)
	s.t.Logf("%s: worst ack %v", what, s.worst().Round(time.Millisecond))
}

// same ends it and wants each topic to hold its file as often as it was sent, and nothing else.
func (s *stream) same() {
	s.t.Helper()
	s.stop()
	for i, in := range s.files {
		whole := in
		whole.content = slices.Repeat(in.content, s.rounds[i])
		whole.same(s.t, consume(s.t, s.c, in.topic))
		s.t.Logf("%s: %d times, sha256 of all %s", in.topic, s.rounds[i], whole.sha())
	}
}

// whole waits until every topic has three members that have all of the log.
func (s *stream) whole() {
	s.t.Helper()
	var last any
	eventually(s.t, time.Minute, func() bool {
		for _, in := range s.files {
			all, err := s.c.Partitions(s.t, in.topic)
			if last = fmt.Sprintf("%s: %+v %v", in.topic, all, err); err != nil {
				return false
			}
			members := 0
			for _, r := range all[0].Replicas {
				if !r.Learner && r.Match+1000 >= all[0].End {
					members++
				}
			}
			if members != 3 {
				return false
			}
		}
		return true
	}, func() any { return last })
}

// TestReplicatedInput: whatever is killed, the files come back as they went in, and no client sees an error.
func TestReplicatedInput(t *testing.T) {
	t.Parallel()
	c := several(t, cluster.Options{})
	s := newStream(t, c)
	kill := func(name string) func() {
		return func() {
			c.Kill(name)
			s.await(300)
			c.Restart(t, name)
			s.whole()
		}
	}
	for _, in := range s.files[:2] {
		leader, _ := c.Leader(t, in.topic)
		s.during("kill -9 of a leader", kill(leader))
		_, follower := c.Leader(t, in.topic)
		s.during("kill -9 of a follower", kill(follower))
	}
	s.during("kill -9 of the active coordinator", kill(c.ActiveCoordinator(t)))
	for _, name := range c.Names("gateway") {
		s.during("kill -9 of "+name, kill(name))
	}
	leader, _ := c.Leader(t, s.files[0].topic)
	s.during("kill -9 of a leader and of the active coordinator", func() {
		coordinator := c.ActiveCoordinator(t)
		c.Kill(coordinator)
		kill(leader)()
		c.Restart(t, coordinator)
	})
	s.same()
}

// TestRollingRestart: every process is stopped and started in turn, and no client sees an error.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := several(t, cluster.Options{})
	s := newStream(t, c)
	for _, kind := range []string{"broker", "gateway", "coordinator", "tierer"} {
		for _, name := range c.Names(kind) {
			s.during("restart of "+name, func() {
				if err := c.Process(name).Stop(); err != nil {
					t.Fatal(err)
				}
				c.Restart(t, name)
				s.whole()
			})
		}
	}
	s.same()
}

// TestEtcdPaused: while etcd stands still, for longer than any lease, records go in and out.
func TestEtcdPaused(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	flags := []string{"--lease-ttl", lease.String()}
	c := several(t, cluster.Options{Args: map[string][]string{"coordinator": flags, "broker": flags, "tierer": flags, "gateway": flags}})
	s := newStream(t, c)
	s.during("etcd stands still", func() {
		c.Process("etcd").Signal(syscall.SIGSTOP)
		defer c.Process("etcd").Signal(syscall.SIGCONT)
		for began := time.Now(); time.Since(began) < 5*lease; {
			s.await(100)
			consume(t, c, s.files[0].topic)
		}
	})
	c.AwaitReady(t)
	leader, _ := c.Leader(t, s.files[0].topic)
	s.during("kill -9 of a leader after that", func() { c.Kill(leader); s.await(300); c.Restart(t, leader) })
	s.same()
}

// TestReplacedDisk: a broker whose data is gone comes back with new replicas, without anybody's help; they are as good as the old ones.
func TestReplacedDisk(t *testing.T) {
	t.Parallel()
	c := several(t, cluster.Options{})
	c.Expect("is not on this disk")
	s := newStream(t, c)
	_, follower := c.Leader(t, s.files[0].topic)
	before := c.Partition(t, s.files[0].topic)
	s.during("a broker loses its disk", func() {
		c.Kill(follower)
		if err := os.RemoveAll(filepath.Join(c.Dir, follower)); err != nil {
			t.Fatal(err)
		}
		s.await(300)
		c.Supervise(t, follower)
		var now cluster.Partition
		eventually(t, time.Minute, func() bool { // the replica on the empty disk is another one
			now = c.Partition(t, s.files[0].topic)
			return len(now.Replicas) > 0 && !slices.ContainsFunc(now.Replicas, func(r cluster.Replica) bool {
				return c.Broker(r.Broker) == follower && slices.ContainsFunc(before.Replicas, func(old cluster.Replica) bool { return old.UUID == r.UUID })
			})
		}, func() any { return now })
		s.whole()
	})
	for _, name := range c.Names("broker") { // each of the others goes once: what is left has it all
		if name != follower {
			s.during("kill -9 of "+name, func() { c.Kill(name); s.await(300); c.Restart(t, name); s.whole() })
		}
	}
	s.same()
}

// TestKeysAcrossGateways: requests with an Idempotency-Key that are sent again and again, through both gateways at once, while leaders and gateways
// are killed, store each record once.
func TestKeysAcrossGateways(t *testing.T) {
	t.Parallel()
	const senders, each = 4, 60
	c := several(t, cluster.Options{})
	c.MustSQ(t, "topic", "create", "keyed", "--replication-factor", "3", "--partitions", "3")
	var acks atomic.Int64
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for i := range each {
				key := fmt.Sprintf("%d-%d", s, i)
				offsets := map[string]bool{}
				for round := range 2 { // again when it is there
					var both sync.WaitGroup
					var mu sync.Mutex
					for g := range c.RESTAddrs {
						both.Go(func() {
							at := publishUntilStored(t, c, (g+round)%len(c.RESTAddrs), key)
							mu.Lock()
							defer mu.Unlock()
							offsets[at] = true
						})
					}
					both.Wait()
				}
				if len(offsets) != 1 {
					t.Errorf("%s was told to be at %v", key, offsets)
				}
				acks.Add(1)
			}
		})
	}
	await := func(n int64) {
		t.Helper()
		eventually(t, 2*sendTimeout, func() bool { return acks.Load() >= min(n, senders*each) }, func() any { return acks.Load() })
	}
	for i, name := range []func() string{
		func() string { leader, _ := c.Leader(t, "keyed"); return leader }, func() string { return "gateway-1" },
		func() string { _, follower := c.Leader(t, "keyed"); return follower }, func() string { return "gateway-2" },
	} {
		await(int64(40 * (i + 1)))
		name := name()
		c.Kill(name)
		c.Restart(t, name)
	}
	sending.Wait()
	times := map[string]int{}
	for record := range bytes.FieldsSeq(consume(t, c, "keyed")) {
		times[string(record)]++
	}
	for s := range senders {
		for i := range each {
			if key := fmt.Sprintf("%d-%d", s, i); times[key] != 1 {
				t.Errorf("%s is there %d times", key, times[key])
			}
		}
	}
}

// publishUntilStored sends a record through a gateway, and through the others where that fails, until one says where it is.
func publishUntilStored(t *testing.T, c *cluster.Cluster, gateway int, key string) (at string) {
	content := fmt.Sprintf(`{"records":[{"text":"%s\n"}],"idempotencyKey":"%s"}`, key, key)
	last := ""
	for began := time.Now(); time.Since(began) < 2*sendTimeout; gateway++ {
		status, body, err := c.RESTAt(t, gateway%len(c.RESTAddrs), http.MethodPost, "/v1/topics/keyed:publish", content)
		var answer struct {
			Results []struct {
				Partition int
				Offset    string
			}
		}
		if err == nil && status == http.StatusOK {
			err = json.Unmarshal([]byte(body), &answer)
		}
		if err == nil && len(answer.Results) == 1 && answer.Results[0].Offset != "" {
			return fmt.Sprint(answer.Results[0].Partition, "/", answer.Results[0].Offset)
		}
		last = fmt.Sprint(status, " ", body, " ", err)
		time.Sleep(20 * time.Millisecond) // between two attempts
	}
	t.Errorf("%s is not stored: %s", key, last)
	return ""
}
