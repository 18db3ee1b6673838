package brcompat

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// aliveWait is how long a restore waits for another live restore's lock: when a Job is recreated, the first one's pod
// may still be undoing its work, and no retry follows.
const aliveWait = 3 * time.Minute

// restoreWait bounds each of a restore's waits for other systems; br has no flag for it.
const restoreWait = time.Hour

// restoreRun is shared by both halves of a restore.
type restoreRun struct {
	document *document
	deps     restore.Deps
	opts     restore.Options
}

// newRestore reads the backup and connects. c owns the connections.
func (a *app) newRestore(ctx context.Context, c *connections) (*restoreRun, error) {
	store, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	doc, err := loadDocument(ctx, store)
	if err != nil {
		return nil, err
	}
	elsewhere, err := doc.manifest.Elsewhere()
	if err != nil {
		return nil, err
	}
	run, err := journal.NewRunID(time.Now())
	if err != nil {
		return nil, err
	}
	r := &restoreRun{document: doc}
	r.deps = restore.Deps{
		TiKV: c.tikv(), Store: store, Log: c.log, Remains: &a.left,
		OpenPD: func(ctx context.Context, _ []string) (restore.PD, error) { return c.pd(ctx) },
	}
	r.opts = restore.Options{
		Backup: doc.manifest.ID, Manifest: doc.manifest, Target: a.common.target(), Run: run, Tool: a.version.Version,
		Owner:   runlock.NewOwner(run, "br restore"),
		Timeout: restoreWait, AliveWait: aliveWait,
	}
	a.logStarted(run, "restore full")
	c.log.Info("backup found", zap.String("backup", string(doc.manifest.ID)), zap.String("made-by", doc.manifest.Tool),
		zap.Int("stores", len(doc.manifest.Source.Stores)), zap.Int("stores-elsewhere", len(elsewhere)),
		zap.Int("volumes", len(doc.manifest.Snapshots)),
		zap.Uint64("resolved_ts", uint64(doc.manifest.BackupTS)), zap.String("run", string(run)))
	return r, nil
}

// carryOut runs one half with the progress file, and prints the line that the Operator waits for when it is done.
// Leftover work for a person is only a warning: the Operator has to continue.
func (a *app) carryOut(ctx context.Context, r *restoreRun, file string, weights map[string]float64,
	half func(context.Context, restore.Deps, restore.Options) (*restore.Result, error),
) error {
	p := newProgress(ctx, file, a.log.Logger, weights)
	r.deps.Sink = events{log: a.log.Logger, next: p}
	result, err := half(ctx, r.deps, r.opts)
	done := err == nil || result.Restored && failure.Is(err, failure.Partial)
	p.close(done)
	if !done {
		return err
	}
	if err != nil {
		a.log.Warn("the restore completed with warnings that need attention", zap.Error(err))
	}
	a.log.print("EBS restore success", zap.Int64("size", r.document.size()),
		zap.Uint64("resolved_ts", uint64(r.document.manifest.BackupTS)))
	return nil
}
