package gc

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// pinned is the refusal to delete a pinned backup.
func (x *deletion) pinned(pin *manifest.PinRecord) error {
	return failure.New(failure.Conflict, "delete backup", string(x.opts.Backup), "it is %s", pin.Pin).
		WithHint("if it is not needed any more, unpin it first: tisnap unpin %s", x.opts.Backup)
}

// checkLocks refuses a backup whose snapshots cannot all be deleted, so that it stays complete.
func (x *deletion) checkLocks(ctx context.Context, found []Item, refuse func(string, ...any) *failure.Error) error {
	var ids []cluster.SnapshotID
	for _, it := range found {
		if it.Kind == KindSnapshot {
			ids = append(ids, cluster.SnapshotID(it.ID))
		}
	}
	if err := x.world.readLocked(ctx, x.Deps, ids); err != nil {
		return err
	}
	var held []string
	var until time.Time
	for id, l := range x.world.locked {
		if l.Holds() {
			held = append(held, string(id))
			if l.ExpiresAt.After(until) {
				until = l.ExpiresAt
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	when := "until an unknown date"
	if !until.IsZero() {
		when = "until " + until.UTC().Format(time.RFC3339)
	}
	return refuse("%d of %d snapshots are locked, %s (%s)", len(held), len(ids), when, strings.Join(held, " ")).
		WithHint("delete it when the locks have expired (%s)", when)
}
