package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// gcDrills removes what dead drills left, or lists them in a dry run. A drill that is younger than the limit stays, and
// so does one that cannot be removed here, with an error. Without one to remove, only the storage is asked.
func (a *app) gcDrills(ctx context.Context, store objstore.Store, o gc.Options) ([]gc.Item, error) {
	dead, err := deadDrills(ctx, store)
	if err != nil {
		return nil, err
	}
	items := make([]gc.Item, len(dead))
	for i := range dead {
		items[i] = drillItemOf(&dead[i], o.OlderThan, time.Now())
	}
	if o.DryRun || !slices.ContainsFunc(items, func(it gc.Item) bool { return it.Action == gc.ActionDelete }) {
		return items, nil
	}
	return items, a.removeDrills(ctx, dead, items)
}

// drillItemOf decides about a dead drill.
func drillItemOf(r *runs.Run, limit time.Duration, now time.Time) gc.Item {
	it := gc.Item{
		Kind: gc.KindDrill, ID: string(r.ID), Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(),
		Action: gc.ActionDelete, Reason: "the drill is dead, or could not remove all that it made",
	}
	if age := now.Sub(r.Last); age < limit {
		it.Action = gc.ActionKeep
		it.Reason = fmt.Sprintf("its run wrote its journal only %s ago (limit %s)", age.Round(time.Second), limit)
	}
	return it
}

// removeDrills removes what the drills left whose items are to be deleted, and records in them what became of it.
func (a *app) removeDrills(ctx context.Context, dead []runs.Run, items []gc.Item) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer c.close()
	d, err := a.connectDrill(ctx, c, s)
	if err != nil {
		return err
	}
	var errs []error
	for i := range items {
		it := &items[i]
		if it.Action != gc.ActionDelete {
			continue
		}
		_, err := d.clean(ctx, &dead[i])
		if it.Action = gc.ActionDeleted; err != nil {
			it.Action, it.Error = gc.ActionLeft, text(err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
