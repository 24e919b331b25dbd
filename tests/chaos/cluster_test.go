package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/chaos/history"
	"github.com/seedqueue/sq/tests/cluster"
)

const (
	// healed is how long after the end of a fault records may take to be acknowledged again.
	healed = 20 * time.Second
	// together is how long replicas may take after the end of a fault to be in step.
	together = 2 * time.Minute
)

// several is rounds of faults on a cluster of several brokers.
type several struct {
	t        *testing.T
	c        *cluster.Cluster
	network  *cluster.Network // nil = links cannot be cut
	rng      *rand.Rand
	load     *load
	longest  time.Duration // of a pause
	faults   map[string]int
	verified int
}

// fault is something that goes wrong, and is over when it returns.
type fault struct {
	name string
	do   func(s *several)
}

// TestCluster: whatever happens to one of three brokers, or to all, what was acknowledged stays, once, where it was, in order; and when it is
// over, records are acknowledged again and replicas come together by themselves. SQ_CHAOS_CLUSTER is the number of brokers, SQ_CHAOS_FAULTS a
// pattern of the faults to choose from.
func TestCluster(t *testing.T) {
	t.Parallel()
	seed := setting(t, "SQ_CHAOS_SEED", rand.Uint64()>>1)
	s := &several{t: t, rng: rand.New(rand.NewPCG(seed, 1)), faults: map[string]int{}, longest: 6 * time.Second}
	rounds := int(setting(t, "SQ_CHAOS_ROUNDS", 0))
	faults := faults()
	if rounds == 0 { // a sample: one of each of the cheap ones
		rounds = sampleRounds
	} else {
		s.longest = 60 * time.Second
	}
	var err error
	if s.network, err = cluster.NewNetwork(t); err != nil {
		t.Logf("links are not cut, there are no network namespaces: %v", err)
		s.network = nil
	} else {
		faults = append(faults, cuts()...)
	}
	if err := traced(t); err != nil {
		t.Logf("no sync is made to fail: %v", err)
	} else {
		faults = append(faults, fault{"failed sync of a leader", (*several).failSync})
	}
	if only := os.Getenv("SQ_CHAOS_FAULTS"); only != "" {
		pattern := regexp.MustCompile(only)
		faults = slices.DeleteFunc(faults, func(f fault) bool { return !pattern.MatchString(f.name) })
		rounds = max(rounds, len(faults))
	}
	s.start(int(setting(t, "SQ_CHAOS_CLUSTER", 3)))
	t.Logf("seed %d", seed)
	began := time.Now()
	s.load = newLoad(t, s.c, "cluster", seed, "--replication-factor", "3", "--segment-bytes", "1MiB")
	var counts history.Counts
	for round := range rounds {
		if round%topicRounds == 0 && round > 0 {
			counts = s.next(counts, seed+uint64(round))
		}
		s.round(round, faults[s.pick(round, len(faults))])
	}
	counts = s.last(counts)
	var told []string
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		told = append(told, fmt.Sprintf("%s %d", name, s.faults[name]))
	}
	t.Logf("%d rounds in %v: %d records written, %d acknowledged, %d failed, %d unknown; %d read back; faults: %s; no violation", rounds,
		time.Since(began).Round(time.Second), counts.Invoked, counts.Acked, counts.Failed, counts.Unknown, s.verified, strings.Join(told, ", "))
}

// sampleRounds fit into the tests of every change.
const sampleRounds = 10

// pick chooses a fault: in a shuffled order, so that a run of as many rounds as there are faults meets each.
func (s *several) pick(round, n int) int {
	order := rand.New(rand.NewPCG(uint64(round/n), s.load.seed)).Perm(n)
	return order[round%n]
}

func (s *several) start(brokers int) {
	s.c = cluster.Start(s.t, programs, cluster.Options{
		Shape: cluster.Processes, Brokers: brokers, Coordinators: 2, Gateways: 2, Args: arguments(), Network: s.network,
	})
	s.t.Cleanup(func() { keep(s.t, s.c) })
}

// keep copies what a failed run leaves to SQ_CHAOS_KEEP.
func keep(t *testing.T, c *cluster.Cluster) {
	to := os.Getenv("SQ_CHAOS_KEEP")
	if to == "" || !t.Failed() {
		return
	}
	c.KillAll()
	if err := run("cp", "-a", c.Dir, to); err != nil {
		t.Errorf("keep the data: %v", err)
	}
}

// round lets one fault happen under load, and checks all behind it.
func (s *several) round(n int, f fault) {
	s.load.await(50 + s.rng.Int64N(200))
	began := time.Now()
	f.do(s)
	s.faults[f.name]++
	over := time.Now()
	eventuallyAcks(s.load, healed)
	recovered := time.Since(over)
	s.c.AwaitReady(s.t)
	reading := s.load.readAll()
	s.verified += reading.Records()
	if testing.Verbose() {
		s.t.Logf("round %d: %s, %v, acknowledged again after %v: %+v, %d read", n+1, f.name, over.Sub(began).Round(time.Millisecond),
			recovered.Round(time.Millisecond), s.load.history.Counts(), reading.Records())
	}
}

// eventuallyAcks wants records to be acknowledged that were not before.
func eventuallyAcks(l *load, within time.Duration) {
	l.t.Helper()
	from := l.acks.Load()
	eventually(l.t, within, "records are acknowledged again", func() bool { return l.acks.Load() >= from+20 })
}

// next ends a topic and begins another: all of it is read in each round.
func (s *several) next(counts history.Counts, seed uint64) history.Counts {
	counts = s.settle(counts)
	s.c.MustSQ(s.t, "topic", "delete", s.load.topic)
	s.load = newLoad(s.t, s.c, fmt.Sprintf("cluster-%d", seed), seed, "--replication-factor", "3", "--segment-bytes", "1MiB")
	return counts
}

func (s *several) settle(counts history.Counts) history.Counts {
	s.together()
	s.verified += s.load.settle().Records()
	c := s.load.history.Counts()
	s.load.end()
	return history.Counts{
		Invoked: counts.Invoked + c.Invoked, Acked: counts.Acked + c.Acked, Failed: counts.Failed + c.Failed, Unknown: counts.Unknown + c.Unknown,
	}
}

// together waits until each partition has all its members in step.
func (s *several) together() {
	s.t.Helper()
	var last string
	eventually(s.t, together, "all replicas are in step", func() bool {
		all, err := s.c.Partitions(s.t, s.load.topic)
		last = fmt.Sprintf("%+v %v", all, err)
		if testing.Verbose() && s.t.Failed() {
			s.t.Log(last)
		}
		for _, p := range all {
			members := 0
			for _, r := range p.Replicas {
				if !r.Learner && r.Match+1000 >= p.End {
					members++
				}
			}
			if members < 3 {
				return false
			}
		}
		return err == nil
	})
}

// last ends the run: every broker's data is sound, and sealed segments are the same bytes on all.
func (s *several) last(counts history.Counts) history.Counts {
	counts = s.settle(counts)
	s.c.StopAll(s.t)
	same := map[string][]byte{} // sum of a sealed segment, by partition and name
	for _, name := range s.c.Names("broker") {
		dir := filepath.Join(s.c.Dir, name)
		if result := s.c.SQ(s.t, nil, "inspect", "verify", dir); result.Code != 0 {
			s.t.Errorf("sq inspect verify %s: code %d\n%s%s", name, result.Code, result.Stdout, result.Stderr)
		}
		compare(s.t, dir, same)
	}
	return counts
}

func faults() []fault {
	kill := func(name string, which func(s *several) string) fault {
		return fault{"kill of " + name, func(s *several) { s.kill(which(s)) }}
	}
	pause := func(name string, which func(s *several) string) fault {
		return fault{"pause of " + name, func(s *several) { s.pause(which(s), s.between(time.Second, s.longest)) }}
	}
	always := func(name string) func(*several) string { return func(*several) string { return name } }
	return []fault{
		kill("leader", (*several).leader), pause("leader", (*several).leader),
		{"kill of all", func(s *several) { s.c.KillAll(); s.c.RestartAll(s.t) }},
		kill("follower", (*several).follower), kill("coordinator", (*several).coordinator), kill("gateway", (*several).gateway),
		{"restart of all brokers in turn", (*several).rolling},
		{"kill of leader and coordinator", func(s *several) {
			coordinator := s.coordinator()
			s.c.Kill(coordinator)
			s.kill(s.leader())
			s.c.Restart(s.t, coordinator)
		}},
		kill("etcd", always("etcd")), pause("follower", (*several).follower), pause("etcd", always("etcd")),
		pause("coordinator", (*several).coordinator), pause("gateway", (*several).gateway), kill("tierer", always("tierer")), kill("s3", always("s3")),
		{"lost disk of follower", func(s *several) { s.wipe(s.follower()) }},
		{"lost disk of leader", func(s *several) { s.wipe(s.leader()) }},
		{"leader resumed after another leads", (*several).zombie},
	}
}

func cuts() []fault {
	cut := func(name string, links func(s *several) [][2]string) fault {
		return fault{"cut: " + name, func(s *several) {
			for _, link := range links(s) {
				s.network.Cut(s.t, link[0], link[1])
			}
			time.Sleep(s.between(time.Second, 2*leaseTTL+s.longest/6))
			s.network.Heal(s.t)
		}}
	}
	both := func(a, b string) [][2]string { return [][2]string{{a, b}, {b, a}} }
	return []fault{
		{"cut: leader from all", func(s *several) { s.isolate(s.leader()) }},
		{"cut: follower from all", func(s *several) { s.isolate(s.follower()) }},
		cut("leader and one follower", func(s *several) [][2]string { return both(s.leader(), s.follower()) }),
		cut("leader to followers, one way", func(s *several) (out [][2]string) {
			leader := s.leader()
			for _, other := range s.others(leader) {
				out = append(out, [2]string{leader, other})
			}
			return out
		}),
		cut("followers to leader, one way", func(s *several) (out [][2]string) {
			leader := s.leader()
			for _, other := range s.others(leader) {
				out = append(out, [2]string{other, leader})
			}
			return out
		}),
		cut("leader and etcd", func(s *several) [][2]string { return both(s.leader(), "etcd") }),
		cut("all brokers and etcd", func(s *several) (out [][2]string) {
			for _, name := range s.c.Names("broker") {
				out = append(out, both(name, "etcd")...)
			}
			return out
		}),
		cut("coordinator and brokers", func(s *several) (out [][2]string) {
			for _, name := range s.c.Names("broker") {
				out = append(out, both(name, s.coordinator())...)
			}
			return out
		}),
		cut("gateway and leader", func(s *several) [][2]string { return both(s.gateway(), s.leader()) }),
	}
}

// leader gives the broker that leads one of the partitions.
func (s *several) leader() string {
	leader, _ := s.c.Leader(s.t, s.load.topic)
	return leader
}

func (s *several) follower() string {
	_, follower := s.c.Leader(s.t, s.load.topic)
	return follower
}

func (s *several) others(name string) []string {
	return slices.DeleteFunc(s.c.Names("broker"), func(other string) bool { return other == name })
}

func (s *several) coordinator() string { return s.c.ActiveCoordinator(s.t) }

func (s *several) gateway() string {
	names := s.c.Names("gateway")
	return names[s.rng.IntN(len(names))]
}

// between gives a time, more often a short one.
func (s *several) between(least, most time.Duration) time.Duration {
	x := s.rng.Float64()
	return least + time.Duration(x*x*x*float64(most-least))
}

// kill ends a process, and starts it again a moment later.
func (s *several) kill(name string) {
	s.c.Kill(name)
	time.Sleep(s.between(0, 2*time.Second))
	s.c.Restart(s.t, name)
}

func (s *several) pause(name string, d time.Duration) {
	s.c.Process(name).Signal(syscall.SIGSTOP)
	time.Sleep(d)
	s.c.Process(name).Signal(syscall.SIGCONT)
}

// zombie pauses a leader until another leads in its place and has records of its own, and lets it go on.
func (s *several) zombie() {
	leader := s.leader()
	s.c.Process(leader).Signal(syscall.SIGSTOP)
	defer s.c.Process(leader).Signal(syscall.SIGCONT)
	eventually(s.t, patience, "another leads", func() bool { now, _ := s.c.Leader(s.t, s.load.topic); return now != leader })
	s.load.await(100)
	if s.longest >= time.Minute {
		time.Sleep(s.longest)
	}
}

// rolling stops and starts each broker.
func (s *several) rolling() {
	for _, name := range s.c.Names("broker") {
		if err := s.c.Process(name).Stop(); err != nil {
			s.t.Fatal(err)
		}
		s.c.Restart(s.t, name)
		s.together()
	}
}

// wipe has a broker come back with an empty disk.
func (s *several) wipe(name string) {
	s.c.Expect("is not on this disk")
	before := s.replicasOf(name)
	s.c.Kill(name)
	if err := os.RemoveAll(filepath.Join(s.c.Dir, name)); err != nil {
		s.t.Fatal(err)
	}
	s.c.Supervise(s.t, name)
	eventually(s.t, together, "replicas on an empty disk are others", func() bool {
		now := s.replicasOf(name)
		return !slices.ContainsFunc(before, func(uuid string) bool { return slices.Contains(now, uuid) })
	})
	s.together()
}

// replicasOf gives the replicas that a broker has of the topic.
func (s *several) replicasOf(name string) (uuids []string) {
	all, err := s.c.Partitions(s.t, s.load.topic)
	if err != nil {
		s.t.Log(err)
	}
	for _, p := range all {
		for _, r := range p.Replicas {
			if s.c.Broker(r.Broker) == name {
				uuids = append(uuids, r.UUID)
			}
		}
	}
	return uuids
}

func (s *several) isolate(name string) {
	s.network.Isolate(s.t, name)
	time.Sleep(s.between(time.Second, 3*leaseTTL+s.longest/6))
	s.network.Heal(s.t)
}
