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

// failedReportDeadline bounds how long a failed run waits for its report to be written.
const failedReportDeadline = 10 * time.Second

// storeFailedReport keeps the report of a run that failed after its checks, for the storage's trend. A run that failed
// in its checks leaves no trace. A failure to write it is only logged: the run's own error counts.
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

// continuedElsewhere reports whether another process has, or may have, resumed the run of this process, which lost the
// lock and was preceded by so many others. That process then reports the outcome.
func continuedElsewhere(ctx context.Context, store objstore.Store, run cluster.RunID, before int) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedReportDeadline)
	defer cancel()
	r, err := runs.Read(ctx, store, run)
	return err != nil || len(r.Processes) > before+1
}
