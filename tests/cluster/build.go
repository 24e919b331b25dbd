package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Programs are the built binaries.
type Programs struct {
	// Root is the repository.
	Root string
	dir  string
}

// services are the programs of SQ, by the package that builds them.
func packages() map[string]string {
	return map[string]string{
		"sq":             "./cli/cmd/sq",
		"sq-broker":      "./services/broker/cmd/sq-broker",
		"sq-coordinator": "./services/coordinator/cmd/sq-coordinator",
		"sq-tierer":      "./services/tierer/cmd/sq-tierer",
		"sq-gateway":     "./services/gateway/cmd/sq-gateway",
	}
}

// servers are the programs that SQ needs beside itself, built in tools/servers.
func servers() map[string]string {
	return map[string]string{
		"etcd":      "go.etcd.io/etcd/server/v3",
		"versitygw": "github.com/versity/versitygw/cmd/versitygw",
	}
}

// Build builds every program into bin/test of the repository, where Go's cache makes all but the first time quick. SQ_BIN names a directory
// with programs that were built before, which are then used as they are; what is not there is built.
func Build(ctx context.Context) (*Programs, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	p := &Programs{Root: root, dir: filepath.Join(root, "bin", "test")}
	given := os.Getenv("SQ_BIN")
	if given != "" {
		if p.dir, err = filepath.Abs(given); err != nil {
			return nil, fmt.Errorf("find SQ_BIN: %w", err)
		}
	}
	for _, set := range []struct {
		dir      string
		env      []string
		packages map[string]string
	}{
		{root, nil, packages()},
		{filepath.Join(root, "tools", "servers"), []string{"GOWORK=off"}, servers()},
	} {
		for name, path := range set.packages {
			if _, err := os.Stat(p.Path(name)); given != "" && err == nil {
				continue
			}
			if err := p.build(ctx, set.dir, set.env, name, path); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *Programs) build(ctx context.Context, dir string, env []string, name, path string) error {
	// Without the commit in it, a program is linked anew only when its code has changed.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", p.Path(name), path)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// Path gives the file of a program.
func (p *Programs) Path(name string) string { return filepath.Join(p.dir, name) }

// repository finds the directory that holds go.work, from this file up.
func repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("find the repository: no caller")
	}
	dir := filepath.Dir(file)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("find the repository: no go.work above %s", file)
		}
		dir = parent
	}
}

// environment gives a child's environment: this process's without SQ's and the AWS SDK's variables, and extra.
func environment(extra ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SQ_") && !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "OTEL_") {
			out = append(out, v)
		}
	}
	return append(out, extra...)
}
