package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/seedqueue/sq/cli/internal/doctor"
	"github.com/seedqueue/sq/libs/version"
)

// exitError ends with a code; what there is to say was said.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Exit codes of doctor.
const (
	exitWarned = 1
	exitBroken = 2
)

// usualPort is the port of --api where nothing else was chosen.
const usualPort = "6060"

const doctorLong = `Look for the usual mistakes: are the gateway's ports reachable, is there a coordinator, are the brokers live, has every partition a leader,
is there room on the disks, do acks mean what the topics ask for, are tierer and bucket ready, do clocks agree, was damage found. Nothing is
changed. What cannot be seen from here is left out. Where --api has its usual port, 6060, metrics and /readyz of the services are looked
for at their usual ports on the same host.

Exit codes: 0 all is well, 1 warnings, 2 something is broken (or not understood).`

func (p *program) doctor() *cobra.Command {
	var output, httpAddr, dataDir string
	var metrics []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for the usual mistakes of a set-up",
		Long:  doctorLong,
		Example: `  sq doctor
  sq doctor --data-dir .sq
  sq doctor --api gateway:6060 --addr gateway:6064 --metrics broker-1:6169,broker-2:6169 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.doctorConfig(cmd, httpAddr, metrics)
			if err != nil {
				return err
			}
			cfg.DataDir = dataDir
			conn, err := p.dialControl()
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			cfg.Control = conn
			return p.diagnose(doctor.Run(cmd.Context(), cfg), output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&httpAddr, "http", p.env.lookup("", "SQ_HTTP"), "REST address of a gateway, host:port; empty = port 6062 on the host of --api (SQ_HTTP)")
	f.StringSliceVar(&metrics, "metrics", nil, "addresses that serve /metrics, host:port with commas; empty = the usual ports on the host of --api")
	f.StringVar(&dataDir, "data-dir", "", "a broker's data directory on this machine, or that of 'sq dev': check it too, headers only")
	outputFlag(cmd, &output)
	return cmd
}

// doctorConfig says where to look.
func (p *program) doctorConfig(cmd *cobra.Command, httpAddr string, metrics []string) (doctor.Config, error) {
	first, _, _ := strings.Cut(p.api, ",") // the gateway that is looked at
	host, port, err := net.SplitHostPort(first)
	if err != nil {
		return doctor.Config{}, usagef("--api %q is not host:port", p.api)
	}
	at := func(port string) string { return net.JoinHostPort(host, port) }
	if httpAddr == "" {
		httpAddr = at("6062")
	}
	var health map[string]string
	if port == usualPort { // else there may be others at the usual ports
		health = map[string]string{"broker": at("6162"), "coordinator": at("6262"), "tierer": at("6362")}
		if !cmd.Flags().Changed("metrics") {
			metrics = []string{at("6069"), at("6169"), at("6269"), at("6369")}
		}
	}
	return doctor.Config{
		Data: p.addr, API: p.api, HTTP: httpAddr, Metrics: metrics, Version: version.Version(), OpenFiles: openFiles(), Now: p.env.Now,
		Health: health,
		Dial: func(ctx context.Context) error {
			client, err := p.open(ctx)
			if err != nil {
				return err
			}
			return client.Close()
		},
	}, nil
}

// openFiles is how many files a process started from here may have open; 0 = not known.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Max // what a Go program, as a broker is, raises its own limit to
}

// diagnose prints the results and gives the exit code.
func (p *program) diagnose(results []doctor.Result, output string) error {
	worst := doctor.Worst(results)
	if output == outputJSON {
		answer := struct {
			Status doctor.Status   `json:"status"`
			Checks []doctor.Result `json:"checks"`
		}{worst, results}
		if err := json.NewEncoder(p.env.Stdout).Encode(answer); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	} else {
		var b strings.Builder
		for _, r := range results {
			fmt.Fprintf(&b, "%-5s %-15s %s\n", r.Status, r.Check, r.Text)
			if r.Next != "" {
				fmt.Fprintf(&b, "%-5s %-15s %s\n", "", "", r.Next)
			}
		}
		if _, err := fmt.Fprint(p.env.Stdout, b.String()); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	switch worst {
	case doctor.Fail:
		return exitError{exitBroken}
	case doctor.Warn:
		return exitError{exitWarned}
	default:
		return nil
	}
}
