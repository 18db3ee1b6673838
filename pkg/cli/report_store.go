package cli

import (
	"bytes"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/runs"
)

// reportDeadline bounds how long the end of a run waits for its report to be written.
const reportDeadline = 30 * time.Second

// storeReport stores a run's report, for the storage's trend. Nothing is stored for a run that never had the lock, or
// that another process has resumed, which reports it. The error is Partial, for a run that did its job; that the report
// of a failed run was not stored is only logged.
func storeReport(
	ctx context.Context, store objstore.Store, log *zap.Logger, r *report.Report, of *runner.Outcome, done bool,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportDeadline)
	defer cancel()
	if !of.Journalled || of.LostLock && continuedElsewhere(ctx, store, r.Run, len(of.Before)) {
		return nil
	}
	err := putReport(ctx, store, r)
	if err != nil && !done {
		log.Warn("the report of the failed run was not stored", zap.Error(err))
		return nil
	}
	return failure.Wrap(err, failure.Partial, "write the report of a run that succeeded", string(r.Run))
}

// putReport writes a report for the storage's trend.
func putReport(ctx context.Context, store objstore.Store, r *report.Report) error {
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		return failure.Wrap(err, failure.Unknown, "encode report", string(r.Run))
	}
	return catalog.Catalog{Store: store}.PutReport(ctx, r.Backup, r.Run, b.Bytes())
}

// continuedElsewhere reports whether another process has, or may have, resumed the run of this process, which lost the
// lock and was preceded by so many others.
func continuedElsewhere(ctx context.Context, store objstore.Store, run cluster.RunID, before int) bool {
	r, err := runs.Read(ctx, store, run)
	return err != nil || len(r.Processes) > before+1
}
