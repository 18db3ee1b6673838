package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/runs"
)

// gcDrills removes what dead drills left, or lists them in a dry run. A drill that is younger than the limit stays, and
// so does one that cannot be removed here, with an error.
func (a *app) gcDrills(ctx context.Context, o gc.Options) ([]gc.Item, error) {
	s, err := a.session()
	if err != nil {
		return nil, err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return nil, err
	}
	defer c.close()
	d, err := a.connectDrill(ctx, c, s)
	if err != nil {
		return nil, err
	}
	dead, err := d.toClean(ctx, nil)
	if err != nil {
		return nil, err
	}
	var items []gc.Item
	var errs []error
	for i := range dead {
		it, err := d.collect(ctx, &dead[i], o)
		items, errs = append(items, it), append(errs, err)
	}
	return items, errors.Join(errs...)
}

// collect decides about one dead drill.
func (d *drillWork) collect(ctx context.Context, r *runs.Run, o gc.Options) (gc.Item, error) {
	it := gc.Item{
		Kind: gc.KindDrill, ID: string(r.ID), Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(),
		Action: gc.ActionDelete, Reason: "the drill is dead, or could not remove all that it made",
	}
	if age := time.Since(r.Last); age < o.OlderThan {
		it.Action = gc.ActionKeep
		it.Reason = fmt.Sprintf("its run wrote its journal only %s ago (limit %s)", age.Round(time.Second), o.OlderThan)
		return it, nil
	}
	if o.DryRun {
		return it, nil
	}
	_, err := d.clean(ctx, r)
	if it.Action = gc.ActionDeleted; err != nil {
		it.Action, it.Error = gc.ActionLeft, text(err)
	}
	return it, err
}
