package tierer

import (
	"context"
	"errors"

	"github.com/seedqueue/sq/services/tierer/internal/export"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
	"github.com/seedqueue/sq/services/tierer/internal/retention"
	"github.com/seedqueue/sq/services/tierer/internal/upload"
)

// worker does what a partition needs, in the order in which it frees the broker's disk.
type worker struct {
	uploader  *upload.Uploader
	exporter  *export.Exporter
	collector *retention.Collector
}

// Do implements harvest.Worker. One step that fails does not keep the others from being done.
func (w *worker) Do(ctx context.Context, work leader.Work) error {
	var errs []error
	changed := work.ExportedVersion < work.TableVersion
	if len(work.Sealed) > 0 {
		committed, err := w.uploader.Tier(ctx, work)
		changed = changed || committed
		errs = append(errs, err)
	}
	if changed {
		errs = append(errs, w.exporter.Export(ctx, work.Partition))
	}
	if len(work.Collectable) > 0 {
		errs = append(errs, w.collector.Collect(ctx, work.Partition, work.Collectable))
	}
	return errors.Join(errs...)
}
