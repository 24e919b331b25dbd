package command

import (
	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/dev"
)

const devLong = `Run all of SQ in one process: coordinator, brokers, tierer and gateway, with an embedded etcd and an embedded S3 server. The data is kept in
one directory and survives kill -9. It is for one machine and not for production: see 'sq-broker --help' and its like for that.`

func (p *program) dev() *cobra.Command {
	cfg := dev.Defaults()
	env := func(name, fallback string) string { return p.env.lookup(fallback, name) }
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run all of SQ in this process",
		Long:  devLong,
		Example: `  sq dev
  sq dev --brokers 3
  sq dev --memory --capnp-host localhost:0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			return dev.Run(cmd.Context(), cfg, p.env.Stdout, p.env.Stderr)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.DataDir, "data-dir", env("SQ_DATA_DIR", cfg.DataDir), "directory of all data; made if it is missing (SQ_DATA_DIR)")
	f.BoolVar(&cfg.Memory, "memory", false, "keep everything in memory; nothing survives")
	f.IntVar(&cfg.Brokers, "brokers", cfg.Brokers, "how many brokers; 0 = as many as the data directory has, 1 in a new one. It may grow between runs, not shrink")
	f.BoolVar(&cfg.AutoCreateTopics, "auto-create-topics", cfg.AutoCreateTopics, "make a topic on its first use")
	f.StringVar(&cfg.CapnpHost, "capnp-host", env("SQ_CAPNP_HOST", cfg.CapnpHost), "address of the data port, host:port (SQ_CAPNP_HOST)")
	f.StringVar(&cfg.GRPCHost, "grpc-host", env("SQ_GRPC_HOST", cfg.GRPCHost), "address of gRPC, host:port (SQ_GRPC_HOST)")
	f.StringVar(&cfg.HTTPHost, "http-host", env("SQ_HTTP_HOST", cfg.HTTPHost), "address of REST, host:port (SQ_HTTP_HOST)")
	f.StringVar(&cfg.AdminHost, "admin-host", env("SQ_ADMIN_HOST", cfg.AdminHost), "address of metrics and pprof, host:port; empty = nowhere (SQ_ADMIN_HOST)")
	f.StringVar(&cfg.SyncPolicy, "sync-policy", env("SQ_SYNC_POLICY", cfg.SyncPolicy), "every-batch, an interval such as 100ms, or none (SQ_SYNC_POLICY)")
	f.StringVar(&cfg.LogLevel, "log-level", env("SQ_LOG_LEVEL", cfg.LogLevel), "debug, info, warn or error (SQ_LOG_LEVEL)")
	f.StringVar(&cfg.LogFormat, "log-format", env("SQ_LOG_FORMAT", cfg.LogFormat), "text or json (SQ_LOG_FORMAT)")
	return cmd
}
