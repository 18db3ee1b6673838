package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// pdState reads what PD keeps in its own store and no volume holds. A part that PD does not show is noted in the
// state: the restore says that it is missing.
func (r *run) pdState(ctx context.Context, s *phase.Scope) (*cluster.PDState, error) {
	state, err := r.PD.State(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read PD's state", r.opts.Cluster.String())
	}
	for part, why := range state.Missing {
		s.Warn("PD's %s are not in the backup: %s", part, why)
	}
	return &state, nil
}

// checkTiFlash says what becomes of TiFlash stores, or refuses them.
func (r *run) checkTiFlash(s *phase.Scope) error {
	warning, err := preflight.CheckTiFlash(r.opts.TiFlash, r.source.Topology.TiFlashStores, r.opts.Cluster.String())
	if warning != "" {
		s.Warn("%s", warning)
		r.result.Warnings = append(r.result.Warnings, warning)
	}
	return err
}
