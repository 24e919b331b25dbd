package bench

import (
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/cluster"
)

// calm is how long a cluster is left alone between two failovers: longer than the hold-down of a partition that has just moved.
const calm = 12 * time.Second

// probe publishes to partitions and notes when they acknowledge.
type probe struct {
	t        *testing.T
	c        *cluster.Cluster
	client   *sq.Client
	topic    string
	producer *sq.Producer
}

func newProbe(t *testing.T, c *cluster.Cluster, partitions int) *probe {
	t.Helper()
	const topic = "failover"
	c.MustSQ(t, "topic", "create", topic, "--partitions", strconv.Itoa(partitions), "--replication-factor", "3", "--no-tier")
	client, err := sq.Open(t.Context(), c.DataAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &probe{t: t, c: c, client: client, topic: topic, producer: client.Producer(topic, sq.Linger(0))}
}

// acks publishes a record to each partition and gives how long after began each was acknowledged.
func (p *probe) acks(partitions []int, began time.Time) []time.Duration {
	p.t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	all.Add(len(partitions))
	for _, partition := range partitions {
		p.producer.Go(sq.Record{Value: []byte("probe")}, func(_ sq.Ack, err error) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				p.t.Errorf("partition %d: %v", partition, err)
			}
			took = append(took, time.Since(began))
		}, sq.ToPartition(partition))
	}
	all.Wait()
	return took
}

// led gives the broker that leads most, and the partitions that it leads.
func (p *probe) led() (broker int, partitions []int) {
	p.t.Helper()
	info, err := p.client.Topic(p.t.Context(), p.topic)
	if err != nil {
		p.t.Fatal(err)
	}
	by := map[int][]int{}
	for _, partition := range info.Partitions {
		by[int(partition.Leader)] = append(by[int(partition.Leader)], partition.Partition)
	}
	delete(by, 0)
	for id, all := range by {
		if len(all) > len(partitions) {
			broker, partitions = id, all
		}
	}
	return broker, partitions
}

func failover(t *testing.T, programs *cluster.Programs) {
	partitions, rounds := number(t, "PARTITIONS", 100), number(t, "ROUNDS", 5)
	c, network := start(t, programs)
	p := newProbe(t, c, partitions)
	var every []int
	for i := range partitions {
		every = append(every, i)
	}
	for range 3 { // sessions, connections, pages
		p.acks(every, time.Now())
	}
	type kind struct {
		name       string
		fail, heal func(name string)
	}
	stopped := make(chan error)
	kinds := []kind{
		{"undisturbed", func(string) {}, func(string) {}},
		{"killed leader", c.Kill, func(name string) { c.Restart(t, name) }},
		{
			"stopped leader (SIGSTOP)", func(name string) { c.Process(name).Signal(syscall.SIGSTOP) },
			func(name string) { c.Process(name).Signal(syscall.SIGCONT) },
		},
		{"drained leader (SIGTERM)", func(name string) { go func() { stopped <- c.Process(name).Stop() }() }, func(name string) {
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			c.Restart(t, name)
		}},
	}
	if network != nil {
		kinds = append(kinds, kind{"isolated leader", func(name string) { network.Isolate(t, name) }, func(string) { network.Heal(t) }})
	}
	for _, k := range kinds {
		var took []time.Duration
		for range rounds {
			if k.name != "undisturbed" {
				time.Sleep(calm)
			}
			id, led := p.led()
			name := c.Broker(id)
			began := time.Now()
			k.fail(name)
			took = append(took, p.acks(led, began)...)
			k.heal(name)
			c.AwaitReady(t)
		}
		t.Logf("%d partitions, %s, to the first ack: %s", partitions, k.name, distribution(took))
	}
	p.transfers(rounds)
}

// transfers moves leaders under load and gives the slowest ack of each move.
func (p *probe) transfers(rounds int) {
	var took []time.Duration
	for range 4 * rounds {
		info, err := p.client.Topic(p.t.Context(), p.topic)
		if err != nil {
			p.t.Fatal(err)
		}
		to := int(info.Partitions[0].Leader)%3 + 1
		stop, stopped := make(chan struct{}), make(chan time.Duration)
		go func() {
			worst := time.Duration(0)
			for {
				worst = max(worst, p.acks([]int{0}, time.Now())[0])
				select {
				case <-stop:
					stopped <- worst
					return
				default:
				}
			}
		}()
		p.c.MustSQ(p.t, "cluster", "transfer-leader", p.topic+"/0", "--to", strconv.Itoa(to))
		p.acks([]int{0}, time.Now())
		close(stop)
		took = append(took, <-stopped)
	}
	p.t.Logf("planned transfer of one partition under load, slowest ack: %s", distribution(took))
}
