package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// accessKey and secretKey are of the S3 server that Processes starts.
const (
	accessKey = "sq-test"
	secretKey = "sq-test-secret"
	bucket    = "sq-test"
)

// layout gives the processes of a cluster their addresses and flags.
type layout struct {
	cluster *Cluster
	options Options
	ports   []string // free addresses, taken one by one
}

func newLayout(ctx context.Context, c *Cluster, o Options) (*layout, error) {
	const enough = 96
	l := &layout{cluster: c, options: o}
	var held []net.Listener
	defer func() {
		for _, lis := range held {
			_ = lis.Close()
		}
	}()
	for tries := 0; len(held) < enough; tries++ { // all at once: one that is closed again might be given twice
		// Below the ports that systems give to outgoing connections: one of those could have a process's port while it is down.
		const first, ports = 10000, 22000
		lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(ports)))
		if err != nil && tries < ports {
			continue // taken
		}
		if err != nil {
			return nil, fmt.Errorf("find free ports: %w", err)
		}
		held = append(held, lis)
		l.ports = append(l.ports, lis.Addr().String())
	}
	return l, nil
}

// address takes a free one.
func (l *layout) address() string {
	a := l.ports[0]
	l.ports = l.ports[1:]
	return a
}

// host gives the address of a process, without port.
func (l *layout) host(name string) (string, error) {
	if l.options.Network == nil {
		return "127.0.0.1", nil
	}
	return l.options.Network.host(name)
}

// addresses takes n free ones of a host.
func (l *layout) addresses(host string, n int) []string {
	out := make([]string, n)
	for i := range out {
		_, port, _ := net.SplitHostPort(l.address()) // it was made by a listener
		out[i] = net.JoinHostPort(host, port)
	}
	return out
}

// numbered gives the names of n processes of a kind.
func numbered(kind string, n int) []string {
	if n <= 1 {
		return []string{kind}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = kind + "-" + strconv.Itoa(i+1)
	}
	return out
}

func (l *layout) add() error {
	if l.options.Shape == AllInOne {
		l.addAllInOne()
		return nil
	}
	return l.addProcesses()
}

// process adds a program of SQ, that kind and name say.
func (l *layout) process(kind, name, http, admin string, env []string, args ...string) {
	c := l.cluster
	args = append(args, l.options.Args[kind]...)
	if name != kind {
		args = append(args, l.options.Args[name]...)
	}
	program := "sq-" + kind
	if kind == "sq" {
		program = kind
	}
	c.processes = append(c.processes, &Process{
		Name: name, kind: kind, Ready: "http://" + http + "/readyz", Admin: admin, own: true, program: c.Programs.Path(program),
		args: args, env: environment(env...), logPath: filepath.Join(c.Dir, "logs", name+".log"), within: l.options.Network.within(name),
	})
}

// server adds another's program.
func (l *layout) server(name, program, ready string, args ...string) {
	c := l.cluster
	c.processes = append(c.processes, &Process{
		Name: name, kind: name, Ready: ready, program: c.Programs.Path(program), args: args, env: environment(),
		logPath: filepath.Join(c.Dir, "logs", name+".log"), within: l.options.Network.within(name),
	})
}

func (l *layout) addAllInOne() {
	c := l.cluster
	c.DataAddr, c.GRPCAddr, c.RESTAddr = l.address(), l.address(), l.address()
	c.RESTAddrs = []string{c.RESTAddr}
	admin := l.address()
	args := []string{
		"dev", "--data-dir", filepath.Join(c.Dir, "dev"), "--capnp-host", c.DataAddr, "--grpc-host", c.GRPCAddr, "--http-host", c.RESTAddr,
		"--admin-host", admin,
	}
	if n := l.options.Brokers; n > 0 {
		args = append(args, "--brokers", strconv.Itoa(n))
	}
	l.process("sq", "sq", c.RESTAddr, admin, nil, args...)
}

// addServers adds etcd and the S3 server; it gives their addresses.
func (l *layout) addServers() (etcd, s3 string, err error) {
	c := l.cluster
	host, err := l.host("etcd")
	if err != nil {
		return "", "", err
	}
	at := l.addresses(host, 2)
	etcd, peer := at[0], at[1]
	l.server("etcd", "etcd", "http://"+etcd+"/health",
		"--name=etcd", "--data-dir="+filepath.Join(c.Dir, "etcd"), "--log-level=warn",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=etcd=http://"+peer)
	if host, err = l.host("s3"); err != nil {
		return "", "", err
	}
	s3 = l.addresses(host, 1)[0]
	l.server("s3", "versitygw", "http://"+s3+"/healthz",
		"--port", s3, "--access", accessKey, "--secret", secretKey, "--quiet", "--health", "/healthz",
		"posix", "--sidecar", filepath.Join(c.Dir, "s3", "metadata"), filepath.Join(c.Dir, "s3", "objects"))
	return etcd, s3, nil
}

func (l *layout) addProcesses() error {
	c := l.cluster
	etcd, s3, err := l.addServers()
	if err != nil {
		return err
	}
	// add adds n processes of a kind; own gives what only its flags say, and takes addresses.
	add := func(kind string, n int, env []string, own func(i int, name string, host string) (http string, args []string)) {
		for i, name := range numbered(kind, n) {
			host, failed := l.host(name)
			if failed != nil {
				err = failed
				return
			}
			http, args := own(i, name, host)
			admin := l.addresses(host, 1)[0]
			l.process(kind, name, http, admin, env, append([]string{"--etcd", "http://" + etcd, "--http-host", http, "--admin-host", admin}, args...)...)
		}
	}
	add("coordinator", l.options.Coordinators, nil, func(i int, _, host string) (string, []string) {
		at := l.addresses(host, 2)
		return at[0], []string{"--node-id", "coordinator-" + strconv.Itoa(i+1), "--grpc-host", at[1]}
	})
	add("broker", l.options.Brokers, nil, func(i int, name, host string) (string, []string) {
		at := l.addresses(host, 2)
		return at[0], []string{"--node-id", strconv.Itoa(i + 1), "--capnp-host", at[1], "--data-dir", filepath.Join(c.Dir, name)}
	})
	add("tierer", 1, []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}, func(_ int, _, host string) (string, []string) {
		at := l.addresses(host, 2)
		return at[0], []string{
			"--node-id", "tierer-1", "--capnp-host", at[1], "--s3-endpoint", "http://" + s3, "--s3-bucket", bucket, "--s3-region", "us-east-1",
			"--s3-create-bucket",
		}
	})
	var data, grpc []string
	add("gateway", l.options.Gateways, nil, func(i int, _, host string) (string, []string) {
		at := l.addresses(host, 3)
		data, grpc, c.RESTAddrs = append(data, at[1]), append(grpc, at[2]), append(c.RESTAddrs, at[0])
		return at[0], []string{"--node-id", "gateway-" + strconv.Itoa(i+1), "--capnp-host", at[1], "--grpc-host", at[2]}
	})
	if err != nil {
		return err
	}
	c.DataAddr, c.GRPCAddr, c.RESTAddr = strings.Join(data, ","), strings.Join(grpc, ","), c.RESTAddrs[0]
	return nil
}

// Flag gives the value of a process's flag, "" where it has none: for a second process beside it.
func (p *Process) Flag(name string) string {
	for i, arg := range p.args {
		if arg == "--"+name && i+1 < len(p.args) {
			return p.args[i+1]
		}
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// Elsewhere gives the process's listen flags with free ports, for a Twin.
func (p *Process) Elsewhere() map[string]string {
	out := map[string]string{}
	for _, arg := range p.args {
		if name, ok := strings.CutPrefix(arg, "--"); ok && strings.HasSuffix(name, "-host") {
			out[name] = "127.0.0.1:0"
		}
	}
	return out
}

// Twin gives a command like the process, with the named flags replaced or added. The caller runs it.
func (p *Process) Twin(ctx context.Context, replace map[string]string) *exec.Cmd {
	args := slices.Clone(p.args)
	for _, name := range slices.Sorted(maps.Keys(replace)) {
		if i := slices.Index(args, "--"+name); i >= 0 {
			args[i+1] = replace[name]
		} else {
			args = append(args, "--"+name, replace[name])
		}
	}
	line := slices.Concat(p.within, []string{p.program}, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env, cmd.Dir = p.env, filepath.Dir(p.logPath)
	cmd.SysProcAttr = attributes()
	return cmd
}
