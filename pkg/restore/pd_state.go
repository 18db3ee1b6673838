package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// PDStatePolicy is what to do with the backup's PD state.
type PDStatePolicy string

// The policies.
const (
	RestorePDState PDStatePolicy = "restore" // restore it
	SkipPDState    PDStatePolicy = "skip"    // leave the target's PD as it is
)

// PDStatePolicies lists the policies, the default first.
func PDStatePolicies() []string { return []string{string(RestorePDState), string(SkipPDState)} }

// stateTime is how long restoring PD's state is retried. Then the run continues without the rest: restored data is
// worth more than settings that can be set by hand.
const stateTime = time.Minute

// pdStateSteps is the step that restores PD's state; none with SkipPDState.
func (r *run) pdStateSteps(name string, do func(context.Context, *phase.Scope) error) []phase.Step {
	if r.opts.PDState == SkipPDState {
		return nil
	}
	return []phase.Step{{Phase: phaseTiDB, Name: name, Deadline: stateTime + time.Minute, Do: do}}
}

// putPDState restores placement rules, region labels, resource groups and dynamic config before TiDB starts.
func (r *run) putPDState(ctx context.Context, s *phase.Scope) error {
	if r.backup.PDState == nil {
		warning := "the backup has no state of PD: placement rules, region labels, resource groups and changes of " +
			"PD's config must be made again"
		r.warn(s, warning)
		return nil
	}
	// A scheduler added now would not be paused like the others: the check adds it, once the cluster serves.
	_, err := r.pd.putState(ctx, pd.WithoutSchedulers(*r.backup.PDState))
	if err != nil {
		s.Warn("PD's state could not be restored in full; retrying when the cluster serves: %v", err)
	}
	return ctx.Err()
}

// checkPDState restores what PD refused while it was frozen, and lists what stays different.
func (r *run) checkPDState(ctx context.Context, _ *phase.Scope) error {
	if r.backup.PDState == nil {
		return nil
	}
	left, err := r.pd.putState(ctx, *r.backup.PDState)
	if err != nil && len(left) == 0 {
		left = []string{fmt.Sprintf("PD's state could not be restored: %v", err)}
	}
	for _, what := range left {
		r.leave("%s", what)
	}
	return ctx.Err()
}

// checkTiFlash reports what becomes of the source's TiFlash replicas, or refuses.
func (r *run) checkTiFlash(s *phase.Scope) error {
	warning, err := preflight.CheckTiFlash(r.opts.TiFlash, r.backup.Source.TiFlashStores, r.opts.Target.String())
	if warning != "" {
		r.warn(s, warning)
	}
	return err
}
