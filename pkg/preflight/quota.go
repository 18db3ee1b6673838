package preflight

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PendingPerVolume is EC2's limit of concurrent snapshots per volume. st1 and sc1, with a limit of 1, do not suit TiKV.
const PendingPerVolume = 5

// CheckPending checks that so many snapshots fit the account's limit of pending ones. quota is the user's; 0 asks
// Service Quotas, and falls back to EC2's default.
func CheckPending(ctx context.Context, e EBS, snapshots, quota int) error {
	if quota == 0 {
		quota = accountQuota(ctx, e)
	}
	pending, err := e.PendingSnapshots(ctx)
	if err != nil {
		return failure.Annotate(err, "count pending snapshots", "")
	}
	if pending+snapshots > quota {
		return failure.New(failure.Limited, "check quota", "pending snapshots",
			"%d are pending, %d more are needed, and EC2 allows %d", pending, snapshots, quota).
			WithHint("wait until other snapshots of the account complete, or set the account's real limit with " +
					"--pending-quota").
			Lasting() // takes minutes to hours, too long to wait silently
	}
	return nil
}

// ProbeCut asks EC2, by a dry run, whether the instances may be snapshotted.
func ProbeCut(ctx context.Context, e EBS, t *cluster.Topology) error {
	return failure.Annotate(
		e.Probe(ctx, ebs.ActionCreateSnapshots, string(t.Stores[0].Instance), t.Stores[0].Volumes[0].Zone),
		"check permissions", string(t.Stores[0].Instance))
}

// accountQuota returns the account's limit of pending snapshots. An unknown limit does not prevent a backup: at the
// real one the cut fails within the hold's budget.
func accountQuota(ctx context.Context, e EBS) int {
	quotas, err := e.Quotas(ctx)
	if err != nil || quotas.PendingSnapshots == 0 {
		return DefaultPending
	}
	return int(quotas.PendingSnapshots)
}

// Busy lists, in order, the volumes with as many snapshots in progress or in error as EC2 allows, and how many: a cut
// would wait for them while the cluster is held.
func Busy(
	ctx context.Context, e EBS, t *cluster.Topology,
) (ids []cluster.VolumeID, count map[cluster.VolumeID]int, err error) {
	count, err = e.SnapshotsInProgress(ctx, t.VolumeIDs())
	if err != nil {
		return nil, nil, failure.Annotate(err, "count pending snapshots", "of the volumes")
	}
	for _, v := range slices.Sorted(slices.Values(t.VolumeIDs())) {
		if count[v] >= PendingPerVolume {
			ids = append(ids, v)
		}
	}
	return ids, count, nil
}
