package tierer

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/objstore/s3bucket"
	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// Main opens the bucket and the spool that the configuration names, and runs a tierer with them until ctx ends.
func Main(ctx context.Context, cfg Config, deps Deps) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	bucket, err := s3bucket.New(ctx, cfg.bucket())
	if err != nil {
		return fault.Wrap("open bucket", err)
	}
	deps.Bucket = bucket
	if cfg.SpoolDir != "" {
		fs, err := osfs.New(cfg.SpoolDir)
		if err != nil {
			return fault.Errorf(fault.Unavailable, "spool-dir: %w", err)
		}
		lock, err := fs.Lock("lock")
		if err != nil {
			return fault.Errorf(fault.DataDirInUse, "spool-dir: lock %s: %w", cfg.SpoolDir, err)
		}
		defer func() { _ = lock.Close() }() // the process ends
		deps.Spool = fs
	}
	t, err := New(ctx, cfg, deps)
	if err != nil {
		return err
	}
	addrs := t.Addrs()
	deps.Log.Info("tierer listens", "capnp", addrs.Capnp, "http", addrs.HTTP, "admin", addrs.Admin)
	return t.Run(ctx)
}
