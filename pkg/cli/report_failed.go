package cli

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
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
