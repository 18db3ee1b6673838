package restore

import (
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// startOver decides what becomes of a run that died while it was being undone. If it was to keep what it made, nothing
// that counts was undone, and it is continued; else the rest is undone, and it begins with the first step again. A
// target that has left recovery mode may serve since then, so nothing of it is taken away.
func (r *run) startOver(*phase.History) (bool, error) {
	switch {
	case r.earlier.keep:
		return false, nil
	case r.left:
		return false, failure.New(failure.Conflict, "resume restore", r.opts.Target.String(),
			"run %s was being undone when its process died, and the cluster has left recovery mode: it may serve", r.opts.Run).
			WithHint("if nobody needs the cluster, delete its TidbCluster and run `tisnap runs abort %s --yes`", r.opts.Run)
	}
	r.keepAgain, r.opts.KeepOnFailure = r.opts.KeepOnFailure, false
	return true, nil
}

// reset forgets what earlier processes of the run made: it is taken away.
func (r *run) reset() error {
	r.opts.KeepOnFailure = r.keepAgain
	r.resumed, r.tikvBegan, r.started = false, false, false
	r.up.Store(false)
	r.asked, r.replaced, r.bound, r.created, r.made = false, 0, false, createdVolumes{}, nil
	r.existing, r.instance, r.given = false, "", givenTarget{}
	r.pd, r.resolved, r.fastBefore, r.fastMine = nil, false, nil, nil
	r.earlier = earlier{restarts: r.earlier.restarts + 1}
	return nil
}
