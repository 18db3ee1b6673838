package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// rebuildDeadline bounds the step, whose own limit grows with the replicas.
const rebuildDeadline = 48 * time.Hour

// rebuildReplicas rebuilds the replicas that are ahead of their region's log, if any.
func (r *run) rebuildReplicas(ctx context.Context, s *phase.Scope) error {
	return r.resolver.Rebuild(ctx, s)
}

// startTiDB starts TiDB, unless that was done while the stores restarted.
func (t *target) startTiDB(ctx context.Context, _ *phase.Scope) error {
	return t.kube.StartTiDB(ctx, t.opts.Target)
}

// checkNoTiDB refuses a TiDB that may use the cluster while its replicas are rebuilt: only an existing target can have
// one by then.
func (t *target) checkNoTiDB(ctx context.Context) error {
	pods, err := t.kube.TiDBPods(ctx, t.opts.Target)
	if err != nil || len(pods) == 0 {
		return err
	}
	return failure.New(failure.Conflict, "rebuild replicas", t.opts.Target.String(),
		"replicas have data that no log of the backup has and are rebuilt first, but TiDB runs: %s",
		failure.List(pods)).
		WithHint("set spec.tidb.replicas to 0 until it is done, and finish the restore with: %s", t.opts.finish())
}
