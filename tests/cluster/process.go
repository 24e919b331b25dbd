package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// readyTimeout bounds how long a process may take to answer 200 on its ready URL.
	readyTimeout = 45 * time.Second
	readyPoll    = 20 * time.Millisecond
	// stopTimeout bounds how long a process may take to end after SIGTERM: its drain and some.
	stopTimeout = 20 * time.Second
	// tailBytes of a log stand in an error.
	tailBytes = 4 << 10
)

// Process is a program that a test runs.
type Process struct {
	// Name is unique in its cluster: "broker".
	Name string
	// Ready is the URL that answers 200 when the process does its work.
	Ready string
	// Admin is where /metrics is, host:port; "" = nowhere.
	Admin string

	kind    string   // the name without its number
	own     bool     // a program of SQ: its log is checked
	within  []string // the command that runs the program inside its place of the network; it becomes the program
	program string
	args    []string
	env     []string
	logPath string
	mu      struct {
		sync.Mutex
		cmd   *exec.Cmd
		ended chan struct{} // closed when cmd has ended
		err   error         // how; valid when ended is closed
	}
}

// Start starts it; its log goes on where it was.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cmd != nil && !isClosed(p.mu.ended) {
		return fmt.Errorf("start %s: it runs", p.Name)
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has it by then
	line := slices.Concat(p.within, []string{p.program}, p.args)
	cmd := exec.Command(line[0], line[1:]...) // it ends by Kill and Stop
	cmd.Env, cmd.Dir = p.env, filepath.Dir(p.logPath)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.mu.cmd, p.mu.ended = cmd, ended
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.err = err
		close(ended)
	}()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *Process) running() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cmd == nil || isClosed(p.mu.ended) {
		return nil, nil
	}
	return p.mu.cmd, p.mu.ended
}

// Running tells whether it runs.
func (p *Process) Running() bool {
	cmd, _ := p.running()
	return cmd != nil
}

// PID gives the process id, 0 where it does not run.
func (p *Process) PID() int {
	if cmd, _ := p.running(); cmd != nil {
		return cmd.Process.Pid
	}
	return 0
}

// Signal sends a signal; without effect where it does not run.
func (p *Process) Signal(sig syscall.Signal) {
	if cmd, _ := p.running(); cmd != nil {
		_ = cmd.Process.Signal(sig) // fails only where it has ended by itself
	}
}

// Kill ends it by SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	cmd, ended := p.running()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // fails only where it has ended by itself
	<-ended
}

// Stop ends it by SIGTERM; it is an error if it takes too long, and is killed then, or if it ends with another code than 0.
func (p *Process) Stop() error {
	cmd, ended := p.running()
	if cmd == nil {
		return nil
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("stop %s: it does not end within %v:\n%s", p.Name, stopTimeout, p.tail())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return fmt.Errorf("stop %s: %w:\n%s", p.Name, p.mu.err, p.tail())
	}
	return nil
}

// Log gives all it has logged.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return ""
	}
	return string(text)
}

func (p *Process) tail() string {
	text := p.Log()
	return text[max(0, len(text)-tailBytes):]
}

// AwaitReady returns when the ready URL answers 200.
func (p *Process) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := errors.New("no answer yet")
	for ctx.Err() == nil {
		if !p.Running() {
			return fmt.Errorf("await %s: it has ended:\n%s", p.Name, p.tail())
		}
		status, body, err := get(ctx, p.Ready)
		if err == nil && status == http.StatusOK {
			return nil
		}
		if err == nil {
			last = fmt.Errorf("%d %s", status, strings.TrimSpace(body))
		} else if ctx.Err() == nil {
			last = err
		}
		pause(ctx, readyPoll)
	}
	return fmt.Errorf("await %s: not ready within %v: %w:\n%s", p.Name, readyTimeout, last, p.tail())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
