package gc

import (
	"cmp"
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// bury announces the deletion of a sealed backup before burying it: of two concurrent deletions of a cluster's last two
// backups, one sees the other and is refused. With Last it announces too, for the other's sake. A backup that was
// sealed after it was checked is a Conflict: no check of whether it is the last one was made. So is one that was pinned
// meanwhile: a pin that is written after the announcement sees that (catalog.Pin), and an earlier one is seen here.
func (x *deletion) bury(ctx context.Context) error {
	if x.entry.State == catalog.StateSealed {
		one := manifest.Deletion{ID: x.entry.ID, Run: x.entry.Run}
		if err := x.catalog.AnnounceDeletion(ctx, x.entry.Cluster, one, x.checkLast); err != nil {
			return err
		}
	}
	pin, err := x.catalog.PinOf(ctx, x.opts.Backup, x.entry.Run)
	if err != nil {
		return err
	}
	if pin != nil {
		return x.pinned(pin)
	}
	return x.catalog.Bury(ctx, x.opts.Backup, x.entry.Run, cmp.Or(x.opts.Reason, "deleted by a user"),
		x.entry.State == catalog.StateUnsealed)
}

// checkLast returns a Conflict if the cluster has no restorable backup besides this one and those that others are about
// to bury. With Last it returns nil.
func (x *deletion) checkLast(ctx context.Context, announced map[cluster.BackupID]bool) error {
	if x.opts.Last {
		return nil
	}
	var leaving []string
	for _, e := range x.others() {
		if announced[e.ID] {
			leaving = append(leaving, string(e.ID))
			continue
		}
		good, err := x.restorable(ctx, e.ID)
		if good || err != nil {
			return err
		}
	}
	refuse := func(besides string) *failure.Error {
		return failure.New(failure.Conflict, "delete backup", string(x.opts.Backup),
			"it is the only restorable backup of cluster %s%s", x.entry.Cluster, besides)
	}
	if len(leaving) == 0 {
		return refuse("").WithHint("take another backup first, or pass --last")
	}
	return refuse(", besides " + failure.List(leaving) + ", which are being deleted, too").
		WithHint("take another backup first, or pass --last")
}

// source identifies a backup's cluster. Names repeat across Kubernetes clusters, and a cluster recreated under the same
// name is a different one, whose backups lack the first one's data.
type source struct {
	name cluster.Name
	id   uint64
}

func sourceOf(e catalog.Entry) source { return source{e.Cluster, e.ClusterID} }

// others returns the cluster's other backups that were sealed when listed, newest first.
func (x *deletion) others() []catalog.Entry {
	var out []catalog.Entry
	for id, e := range x.world.backups {
		if id != x.opts.Backup && e.State == catalog.StateSealed && sourceOf(e) == sourceOf(x.entry) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b catalog.Entry) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// restorable reports whether the backup is sealed, undamaged, and has all its snapshots. For one in another region it
// trusts the seal without asking EC2.
func (x *deletion) restorable(ctx context.Context, id cluster.BackupID) (bool, error) {
	m, err := x.catalog.Load(ctx, id)
	switch failure.KindOf(err) {
	case failure.NotFound, failure.Unready, failure.Corrupt, failure.Usage:
		return false, nil
	default:
		if err != nil {
			return false, err
		}
	}
	if m.Region != x.EBS.Region() {
		return true, nil
	}
	found, err := x.EBS.DescribeSnapshots(ctx, m.SnapshotIDs())
	if err != nil {
		return false, failure.Annotate(err, "describe snapshots", string(id))
	}
	there := map[cluster.SnapshotID]bool{}
	for _, s := range found {
		there[s.ID] = s.State.Outcome() != ebs.SnapshotFailed
	}
	return !slices.ContainsFunc(m.SnapshotIDs(), func(id cluster.SnapshotID) bool { return !there[id] }), nil
}
