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
	const enough = 24
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

func (l *layout) add() {
	c := l.cluster
	c.DataAddr, c.GRPCAddr, c.RESTAddr = l.address(), l.address(), l.address()
	if l.options.Shape == AllInOne {
		l.addAllInOne()
		return
	}
	l.addProcesses()
}

// process adds a program of SQ.
func (l *layout) process(name, program, http, admin string, env []string, args ...string) {
	c := l.cluster
	c.processes = append(c.processes, &Process{
		Name: name, Ready: "http://" + http + "/readyz", Admin: admin, own: true, program: c.Programs.Path(program),
		args: append(args, l.options.Args[name]...), env: environment(env...), logPath: filepath.Join(c.Dir, "logs", name+".log"),
	})
}

// server adds another's program.
func (l *layout) server(name, program, ready string, args ...string) {
	c := l.cluster
	c.processes = append(c.processes, &Process{
		Name: name, Ready: ready, program: c.Programs.Path(program), args: args, env: environment(),
		logPath: filepath.Join(c.Dir, "logs", name+".log"),
	})
}

func (l *layout) addAllInOne() {
	c, admin := l.cluster, l.address()
	l.process("sq", "sq", c.RESTAddr, admin, nil, "dev",
		"--data-dir", filepath.Join(c.Dir, "dev"), "--capnp-host", c.DataAddr, "--grpc-host", c.GRPCAddr, "--http-host", c.RESTAddr,
		"--admin-host", admin)
}

func (l *layout) addProcesses() {
	c := l.cluster
	etcd, etcdPeer, s3 := l.address(), l.address(), l.address()
	l.server("etcd", "etcd", "http://"+etcd+"/health",
		"--name=etcd", "--data-dir="+filepath.Join(c.Dir, "etcd"), "--log-level=warn",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+etcdPeer, "--initial-advertise-peer-urls=http://"+etcdPeer, "--initial-cluster=etcd=http://"+etcdPeer)
	l.server("s3", "versitygw", "http://"+s3+"/healthz",
		"--port", s3, "--access", accessKey, "--secret", secretKey, "--quiet", "--health", "/healthz",
		"posix", "--sidecar", filepath.Join(c.Dir, "s3", "metadata"), filepath.Join(c.Dir, "s3", "objects"))
	common := func(http, admin string) []string {
		return []string{"--etcd", "http://" + etcd, "--http-host", http, "--admin-host", admin}
	}
	http, admin := l.address(), l.address()
	l.process("coordinator", "sq-coordinator", http, admin, nil,
		append(common(http, admin), "--node-id", "coordinator-1", "--grpc-host", l.address())...)
	http, admin = l.address(), l.address()
	l.process("broker", "sq-broker", http, admin, nil,
		append(common(http, admin), "--node-id", "1", "--capnp-host", l.address(), "--data-dir", filepath.Join(c.Dir, "broker"))...)
	http, admin = l.address(), l.address()
	l.process("tierer", "sq-tierer", http, admin, []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey},
		append(common(http, admin), "--node-id", "tierer-1", "--capnp-host", l.address(), "--s3-endpoint", "http://"+s3,
			"--s3-bucket", bucket, "--s3-region", "us-east-1", "--s3-create-bucket")...)
	admin = l.address()
	l.process("gateway", "sq-gateway", c.RESTAddr, admin, nil,
		append(common(c.RESTAddr, admin), "--node-id", "gateway-1", "--capnp-host", c.DataAddr, "--grpc-host", c.GRPCAddr)...)
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
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env, cmd.Dir = p.env, filepath.Dir(p.logPath)
	cmd.SysProcAttr = attributes()
	return cmd
}
