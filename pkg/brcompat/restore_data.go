package brcompat

import (
	"context"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/restore"
)

// restoreData resolves the data of stores that the Operator started on the new volumes. On failure the cluster stays in
// recovery mode, and the run can be repeated.
func (a *app) restoreData(ctx context.Context, f restoreFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.close()
	r, err := a.newRestore(ctx, c)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, r, f.ProgressFile, map[string]float64{
		"await-stores": 10, "collect": 20, journal.StepRecover: 30, "prepare": 10, "flashback": 30,
	}, restore.ResolveData)
}
