package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
)

// target is the cluster to restore to, in Kubernetes: it alone asks about it there, and changes it.
type target struct {
	kube    kube.Restorer // nil for a run that does not use Kubernetes
	store   objstore.Store
	remains *phase.Remains
	opts    Options

	uid          string // of the Kubernetes cluster; "" if unknown
	existing     bool   // others created it for this restore
	instance     string // the instance label of an existing one
	given        journal.GivenTarget
	bound        bool // claims of a kept target are bound to the volumes
	started      bool // TiKV may start, so pods may use the volumes
	leftRecovery bool // before this process began
	leaving      bool // this process has taken it, or may have, out of recovery mode
}

// newTarget returns a target of which only the Kubernetes cluster is known, by its uid, and whether others create it.
func newTarget(deps *Deps, opts Options, uid string, existing bool) target {
	return target{
		kube: deps.Kube, store: deps.Store, remains: deps.Remains, opts: opts, uid: uid, existing: existing,
	}
}

// identify determines in which Kubernetes cluster the target is.
func (t *target) identify(ctx context.Context) (uid string, err error) {
	t.uid, err = t.kube.ClusterUID(ctx)
	return t.uid, err
}

// cluster reads the target's cluster object.
func (t *target) cluster(ctx context.Context) (kube.TidbCluster, error) {
	return t.kube.Cluster(ctx, t.opts.Target)
}

// adopt is find once the run has the lock: whether pods may use the volumes is known too.
func (t *target) adopt(ctx context.Context, m *manifest.Manifest, e *earlier) error {
	t.started = e.tikvMayRun
	return t.find(ctx, m, e)
}

// find determines, in a resumed run, who created the target: an earlier process of the run may have. One that has left
// recovery mode may serve and have newer data: whatever fails now, it is kept. One created by others is refused unless
// it is the one that the run was given, or could be given now.
func (t *target) find(ctx context.Context, m *manifest.Manifest, e *earlier) error {
	tc, err := t.cluster(ctx)
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if tc.Run != t.opts.Run {
		if err := t.checkGiven(ctx, tc, m, e); err != nil {
			return err
		}
	}
	t.leftRecovery = t.started && !tc.RecoveryMode
	t.existing, t.instance = tc.Run != t.opts.Run, ""
	if t.existing {
		t.instance = tc.Instance
	}
	return nil
}

// checkGiven refuses an existing target that the run's earlier processes did not have: a serving one would get a mark,
// volumes and settings that are not its own.
func (t *target) checkGiven(ctx context.Context, tc kube.TidbCluster, m *manifest.Manifest, e *earlier) error {
	switch {
	case e.Made:
	case !e.bound:
		return t.check(ctx, m) // nothing of it is changed yet
	case e.Given.UID == "" || e.Given.UID == uidOf(tc):
		return nil
	}
	return failure.New(failure.Conflict, "resume restore", t.opts.Target.String(),
		"another cluster of this name was created after run %s died", t.opts.Run).
		WithHint("undo the run with `tisnap runs abort %s`, and restore into another --to", t.opts.Run)
}
