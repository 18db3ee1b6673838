package preflight

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PendingPerVolume is how many snapshots of one volume EC2 has in progress at most. st1 and sc1, with a limit of 1,
// are no volumes for TiKV.
const PendingPerVolume = 5

// checkAccount checks that the snapshots would fit into what may be pending, in the account and on each volume,
// and that the instances may be cut. quota is what the user says; 0 asks Service Quotas, and takes EC2's default
// where that may not be asked or does not know.
func checkAccount(ctx context.Context, e EBS, t *cluster.Topology, quota int) error {
	if quota == 0 {
		quota = accountQuota(ctx, e)
	}
	pending, err := e.PendingSnapshots(ctx)
	if err != nil {
		return failure.Annotate(err, "count pending snapshots", "")
	}
	if n := len(t.VolumeIDs()); pending+n > quota {
		return failure.New(failure.Limited, "check quota", "pending snapshots",
			"%d are pending, %d more would be made, and EC2 allows %d", pending, n, quota).
			WithHint("wait until other snapshots of the account are completed, or give the account's real limit by " +
					"--pending-quota").
			Lasting() // it takes minutes to hours, which nobody waits for in silence
	}
	return failure.Annotate(
		e.Probe(ctx, ebs.ActionCreateSnapshots, string(t.Stores[0].Instance), t.Stores[0].Volumes[0].Zone),
		"check permissions", string(t.Stores[0].Instance))
}

// accountQuota is the account's limit of pending snapshots. An unknown limit is no reason not to back up: the
// cut meets the real one, and fails within the hold's budget.
func accountQuota(ctx context.Context, e EBS) int {
	quotas, err := e.Quotas(ctx)
	if err != nil || quotas.PendingSnapshots == 0 {
		return DefaultPending
	}
	return int(quotas.PendingSnapshots)
}

// Busy lists, in order, the volumes that have as many snapshots in progress, or in error, as EC2 allows, and how many:
// a cut would wait for them while the cluster is held.
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
