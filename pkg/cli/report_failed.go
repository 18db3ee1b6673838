package cli

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
)

// failedReportDeadline bounds how long a run that failed waits for its report to be written.
const failedReportDeadline = 10 * time.Second

// storeFailedReport keeps the report of a run that failed after its checks, for the trend of the storage. A run that
// failed in its checks leaves no trace. That it cannot be written is logged and changes nothing: the run's own error
// is what counts.
func storeFailedReport(ctx context.Context, store objstore.Store, log *zap.Logger, r *report.Report) {
	if r.OnlyChecked() {
		return
	}
	body, err := encodeReport(r)
	if err == nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedReportDeadline)
		defer cancel()
		err = catalog.Catalog{Store: store}.PutFailedReport(short, r.Run, body)
	}
	if err != nil {
		log.Warn("the report of the failed run was not stored", zap.Error(err))
	}
}

// continuedElsewhere reports whether another process has continued the run, or may have: ask it of a process that lost
// the lock and came after so many others. It is the other one that says how the run ended.
func continuedElsewhere(ctx context.Context, store objstore.Store, run cluster.RunID, before int) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedReportDeadline)
	defer cancel()
	r, err := runs.Read(ctx, store, run)
	return err != nil || len(r.Processes) > before+1
}
