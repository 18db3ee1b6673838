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

// aliveWait is how long a restore waits for the lock of another one that is alive: when a Job is made again, the pod of
// the first one may still undo what it did, and no person is there to run it again.
const aliveWait = 3 * time.Minute

// restoreWait bounds each wait of a restore for other systems; br has no flag for it.
const restoreWait = time.Hour

// restoreRun is what both halves of a restore have in common.
type restoreRun struct {
	document *document
	deps     restore.Deps
	opts     restore.Options
}

// newRestore reads the backup and connects. The connections are c's.
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
	a.sayStarted(run, "restore full")
	c.log.Info("backup found", zap.String("backup", string(doc.manifest.ID)), zap.String("made-by", doc.manifest.Tool),
		zap.Int("stores", len(doc.manifest.Source.Stores)), zap.Int("stores-elsewhere", len(elsewhere)),
		zap.Int("volumes", len(doc.manifest.Snapshots)),
		zap.Uint64("resolved_ts", uint64(doc.manifest.BackupTS)), zap.String("run", string(run)))
	return r, nil
}

// carryOut runs one half under the progress file, and says the line that the Operator waits for when all is done.
// What a person has to see to though it is done is a warning: the Operator has to continue from there.
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
		a.log.Warn("the restore is done, and a person has to see to something", zap.Error(err))
	}
	a.log.say("EBS restore success", zap.Int64("size", r.document.size()),
		zap.Uint64("resolved_ts", uint64(r.document.manifest.BackupTS)))
	return nil
}
