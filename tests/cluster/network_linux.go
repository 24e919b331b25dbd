package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Network gives each process a network namespace with an address of its own, all joined by a bridge, so that links between them can be cut. It
// needs root and ip, iptables and network namespaces of the kernel. The test's own process is the host "test".
type Network struct {
	prefix string // of the namespaces' names
	subnet string // "10.88.3."
	mu     sync.Mutex
	hosts  []string // by address: the first is .2
}

// hub is the namespace with the bridge: in the machine's own one, other programs' rules may stop what the bridge passes on.
const hub = "hub"

// NewNetwork makes a network that ends with the test. The error says what this machine lacks.
func NewNetwork(t testing.TB) (*Network, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("network namespaces need %s: %w", program, err)
		}
	}
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%d %s", os.Getpid(), t.Name()) // never fails
	n := &Network{prefix: fmt.Sprintf("sq%07x", sum.Sum32()>>4), subnet: fmt.Sprintf("10.%d.%d.", 64+sum.Sum32()>>8%64, sum.Sum32()%256)}
	t.Cleanup(n.remove)
	err := n.ip(
		"netns add "+n.namespace(hub), "-n "+n.namespace(hub)+" link add bridge0 type bridge", "-n "+n.namespace(hub)+" link set bridge0 up",
		"link add "+n.prefix+"t type veth peer name test netns "+n.namespace(hub), "-n "+n.namespace(hub)+" link set test master bridge0 up",
		"addr add "+n.subnet+"1/24 dev "+n.prefix+"t", "link set "+n.prefix+"t up",
	)
	return n, err
}

func (n *Network) namespace(host string) string { return n.prefix + "-" + host }

// ip makes calls of ip, one after the other.
func (n *Network) ip(calls ...string) error {
	for _, call := range calls {
		if err := system("ip", strings.Fields(call)...); err != nil {
			return err
		}
	}
	return nil
}

func system(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func (n *Network) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, host := range append(slices.Clone(n.hosts), hub) {
		_ = n.ip("netns del " + n.namespace(host)) // takes its links with it
	}
}

// host gives the address of a process; it is made with the first call.
func (n *Network) host(name string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.hosts, name); i >= 0 {
		return n.address(i), nil
	}
	n.hosts = append(n.hosts, name)
	address, space := n.address(len(n.hosts)-1), n.namespace(name)
	port := fmt.Sprintf("port%d", len(n.hosts))
	return address, n.ip(
		"netns add "+space, "-n "+n.namespace(hub)+" link add "+port+" type veth peer name eth0 netns "+space,
		"-n "+n.namespace(hub)+" link set "+port+" master bridge0 up", "-n "+space+" addr add "+address+"/24 dev eth0",
		"-n "+space+" link set eth0 up", "-n "+space+" link set lo up",
	)
}

func (n *Network) address(i int) string { return fmt.Sprintf("%s%d", n.subnet, i+2) }

// within gives the command that runs a program inside a host; it becomes the program.
func (n *Network) within(name string) []string {
	if n == nil {
		return nil
	}
	return []string{"ip", "netns", "exec", n.namespace(name)}
}

// Cut drops what one host sends to another, from now on, without a word to either.
func (n *Network) Cut(t testing.TB, from, to string) {
	t.Helper()
	n.rule(t, "-A", from, to)
}

// Heal ends all cuts.
func (n *Network) Heal(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	hosts := slices.Clone(n.hosts)
	n.mu.Unlock()
	for _, host := range hosts {
		if err := system("ip", "netns", "exec", n.namespace(host), "iptables", "-F", "INPUT"); err != nil {
			t.Error(err)
		}
	}
}

func (n *Network) rule(t testing.TB, action, from, to string) {
	t.Helper()
	source, err := n.host(from)
	if err == nil {
		err = system("ip", "netns", "exec", n.namespace(to), "iptables", action, "INPUT", "-s", source, "-j", "DROP")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Isolate cuts a host off all others but the test, in both directions.
func (n *Network) Isolate(t testing.TB, host string) {
	t.Helper()
	n.mu.Lock()
	hosts := slices.Clone(n.hosts)
	n.mu.Unlock()
	for _, other := range hosts {
		if other != host {
			n.Cut(t, host, other)
			n.Cut(t, other, host)
		}
	}
}
