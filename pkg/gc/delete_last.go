package gc

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// bury announces a sealed backup before it buries it: of two deletions at the same time of the last two backups of a
// cluster, one sees the other's, and is refused. With Last it announces too, for the other's sake. A backup that had no
// seal when it was checked and has one now is a Conflict: nobody checked whether it is the last one.
func (x *deletion) bury(ctx context.Context) error {
	if x.entry.State == catalog.StateSealed {
		one := manifest.Deletion{ID: x.entry.ID, Run: x.entry.Run}
		if err := x.catalog.AnnounceDeletion(ctx, x.entry.Cluster, one, x.checkLast); err != nil {
			return err
		}
	}
	return x.catalog.Bury(ctx, x.opts.Backup, x.entry.Run, cmp.Or(x.opts.Reason, "deleted by a person"),
		x.entry.State == catalog.StateUnsealed)
}

// checkLast is Conflict if no backup of the cluster can be restored but this one and those that others are about to
// bury. With Last it is nil.
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
			"it is the only backup of cluster %s that can be restored%s", x.entry.Cluster, besides)
	}
	if len(leaving) == 0 {
		return refuse("").WithHint("take another backup first, or say --last")
	}
	return refuse(", besides " + strings.Join(leaving, " and ") + ", whose deletion has begun").
		WithHint("take another backup first, or say --last")
}

// source is the cluster that a backup is of. Names are alike in many Kubernetes clusters, and a cluster that is made
// again under its name is another one, whose backups do not have the data of the first.
type source struct {
	name cluster.Name
	id   uint64
}

func sourceOf(e catalog.Entry) source { return source{e.Cluster, e.ClusterID} }

// others are the backups of the cluster that were sealed when they were listed, the newest first.
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

// restorable reports whether the backup is sealed by now, whole, and has all its snapshots. Of one in another region
// EC2 is not asked here: its seal is believed.
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
