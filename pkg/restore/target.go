package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// target is the cluster that is restored to, as Kubernetes has it.
type target struct {
	kube  kube.Restorer
	store objstore.Store
	opts  Options

	uid      string // of the Kubernetes cluster; "" if it is not known
	existing bool   // it was made by somebody else, for this restore
	instance string // of one that somebody else made: the value of its instance label
	given    journal.GivenTarget
	bound    bool // claims of a target that is kept are bound to the volumes
	started  bool // TiKV may start, so pods may use the volumes
	left     bool // it has left recovery mode before this process began
	leaving  bool // it has, or may have, by this process
}

// newTarget is a target of which nothing is known but the Kubernetes cluster that it is in, and its PD.
func (r *run) newTarget(uid string) (target, placement) {
	return target{kube: r.Kube, store: r.Store, opts: r.opts, uid: uid}, placement{tikv: r.TiKV, name: r.opts.Target}
}

// find says, in a resumed run, whose the target is: an earlier process of the run may have made it. One that has
// left recovery mode may serve since then, and hold newer data: whatever fails now, it is kept. One of somebody else is
// refused unless it is the one that the run was given, or could be given now.
func (t *target) find(ctx context.Context, m *manifest.Manifest, e *earlier) error {
	tc, err := t.kube.Cluster(ctx, t.opts.Target)
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
	t.left = t.started && !tc.RecoveryMode
	t.existing, t.instance = tc.Run != t.opts.Run, ""
	if t.existing {
		t.instance = tc.Instance
	}
	return nil
}

// checkGiven refuses a target of somebody else that the run's earlier processes did not have: one that serves would get
// a mark, volumes and settings that are not its own.
func (t *target) checkGiven(ctx context.Context, tc kube.TidbCluster, m *manifest.Manifest, e *earlier) error {
	switch {
	case e.Made:
	case !e.bound:
		return t.check(ctx, m) // nothing of it is changed yet
	case e.Given.UID == "" || e.Given.UID == uidOf(tc):
		return nil
	}
	return failure.New(failure.Conflict, "resume restore", t.opts.Target.String(),
		"the cluster was made by somebody else since run %s died", t.opts.Run).
		WithHint("undo the run with `tisnap runs abort %s`, and restore into another --to", t.opts.Run)
}
