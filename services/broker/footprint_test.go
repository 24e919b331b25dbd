package broker_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/services/broker"
)

// process is what a look at this process gave.
type process struct {
	heap, rss  int64 // bytes; rss = resident and anonymous
	goroutines int
	files      int
}

func look(t *testing.T) process {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	p := process{heap: int64(mem.HeapAlloc + mem.StackInuse), goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.files = len(fds)
	}
	if status, err := os.Open("/proc/self/status"); err == nil {
		defer status.Close()
		for lines := bufio.NewScanner(status); lines.Scan(); {
			if kb, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
				n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
				p.rss = n << 10
			}
		}
	}
	return p
}

// processor tells how much processor time this process has taken.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (p process) less(q process) process {
	return process{p.heap - q.heap, p.rss - q.rss, p.goroutines - q.goroutines, p.files - q.files}
}

// fleet is a broker with many partitions of one topic.
type fleet struct {
	store *memstore.Store
	n     int
}

func (f *fleet) id(i int) partition.ID {
	return partition.ID{Topic: topicID, Index: partition.Index(i)}
}

func (f *fleet) nominate(t *testing.T, incarnation partition.Incarnation) {
	t.Helper()
	var ops []topology.Op
	flush := func() {
		if _, err := f.store.Txn(t.Context(), nil, ops); err != nil {
			t.Fatal(err)
		}
		ops = nil
	}
	for i := range f.n {
		member := partition.Member{Broker: 1, Replica: partition.UUIDOf(99, uint64(i)+1)}
		leader := topology.Leader{Broker: 1, Incarnation: incarnation, Replica: member.Replica}
		a := topology.First(leader, []partition.Member{member})
		if kv, ok, _, err := f.store.Get(t.Context(), topology.PartitionKey(f.id(i))); err != nil {
			t.Fatal(err)
		} else if ok {
			old, err := topology.Decode[topology.Assignment](kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			a = old.Nominate(leader, old.Members)
		}
		value, err := topology.Encode(a)
		if err != nil {
			t.Fatal(err)
		}
		if ops = append(ops, topology.Op{Key: topology.PartitionKey(f.id(i)), Value: value}); len(ops) == 100 {
			flush()
		}
	}
	flush()
}

// active tells whether a life leads all its partitions.
func (f *fleet) active(t *testing.T, incarnation partition.Incarnation) bool {
	t.Helper()
	for i := f.n - 1; i >= 0; i-- {
		kv, _, _, err := f.store.Get(t.Context(), topology.PartitionKey(f.id(i)))
		if err != nil {
			t.Fatal(err)
		}
		a, err := topology.Decode[topology.Assignment](kv.Value)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != topology.Active || a.Leader.Incarnation != incarnation {
			return false
		}
	}
	return true
}

// start begins a life and waits until it leads all its partitions. It tells how long that took, nomination included.
func (f *fleet) start(t *testing.T, dir string, incarnation partition.Incarnation) (stop func(), took time.Duration) {
	t.Helper()
	fsys, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := broker.Defaults()
	cfg.NodeID, cfg.DataDir = 1, dir
	cfg.CapnpHost, cfg.HTTPHost, cfg.AdminHost = "127.0.0.1:0", "127.0.0.1:0", ""
	begun := time.Now()
	b, err := broker.New(t.Context(), cfg, broker.Deps{FS: fsys, Deps: node.Deps{
		Clock: clock.Real(), Network: tcpnet.New(), Store: f.store, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		fsys.Close()
	}
	w := world{store: f.store}
	w.live(t, incarnation)
	f.nominate(t, incarnation)
	for !f.active(t, incarnation) || b.Ready() != nil {
		if time.Since(begun) > 3*time.Minute {
			t.Fatalf("not ready: %v", b.Ready())
		}
		time.Sleep(100 * time.Millisecond)
	}
	return stop, time.Since(begun)
}

// What an idle partition costs. SQ_FOOTPRINT (make footprint) says how many there are, and has it told what starting and doing nothing takes.
func TestFootprint(t *testing.T) {
	f := &fleet{store: memstore.New(clock.Real()), n: 300}
	defer f.store.Close()
	told := os.Getenv("SQ_FOOTPRINT")
	if told != "" {
		n, err := strconv.Atoi(told)
		if err != nil {
			t.Fatal(err)
		}
		f.n = n
	}
	topic := topology.Topic{
		V: 1, ID: topicID, Namespace: topology.DefaultNamespace, Name: "orders", Partitions: uint32(f.n), ReplicationFactor: 1, MapVersion: 1,
		Durability: topology.DurabilityQuorum, SegmentBytes: 128 << 20, SegmentAge: topology.Duration(time.Hour), Created: time.Now(),
	}
	w := world{store: f.store}
	w.put(t, topology.TopicKey(topicID), topic)
	w.put(t, topology.NameKey(topic.FullName()), topology.TopicRef{V: 1, ID: topicID})
	dir := t.TempDir()
	before := look(t)
	stop, created := f.start(t, dir, 1)
	stop()
	busy := processor(t)
	stop, started := f.start(t, dir, 2)
	busy = processor(t) - busy
	per := look(t).less(before)
	n := int64(f.n)
	t.Logf("%d partitions: made in %v, started again in %v and %v of processor time; each %d B of heap and stacks, %d B resident; %d goroutines, %d files",
		n, created, started, busy, per.heap/n, per.rss/n, per.goroutines, per.files)
	if told != "" {
		busy = processor(t)
		time.Sleep(10 * time.Second)
		t.Logf("10 s of doing nothing took %v of processor time", processor(t)-busy)
	}
	stop()
	if per.heap/n > 50_000 || per.goroutines > f.n+100 || per.files > 1024+100 {
		t.Errorf("an idle partition costs too much: %+v for %d", per, n)
	}
}
