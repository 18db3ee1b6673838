package preflight

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// describeVolumes fills in what EC2 knows of the volumes and checks that each is attached to its pod's instance.
func describeVolumes(ctx context.Context, e ebs.Volumes, src *Source) error {
	found, err := e.DescribeVolumes(ctx, src.Topology.VolumeIDs())
	if err != nil {
		return failure.Annotate(err, "describe volumes", "")
	}
	byID := map[cluster.VolumeID]ebs.Volume{}
	for _, v := range found {
		byID[v.ID] = v
	}
	for i := range src.Topology.Stores {
		s := &src.Topology.Stores[i]
		for j := range s.Volumes {
			if err := fillVolume(s, &s.Volumes[j], byID); err != nil {
				return err
			}
		}
	}
	return nil
}

func fillVolume(s *cluster.Store, v *cluster.Volume, byID map[cluster.VolumeID]ebs.Volume) error {
	got, ok := byID[v.ID]
	target := string(v.ID) + " (store " + s.ID.String() + ", " + string(v.Role) + ")"
	switch {
	case !ok:
		return failure.New(failure.NotFound, "describe volume", target, "EC2 does not know it").
			WithHint("check that --region and the credentials are those of the cluster's account")
	case got.Instance != s.Instance:
		return failure.New(failure.Unready, "check volume", target, "it is attached to %q and pod %s runs on %s", got.Instance, s.Pod, s.Instance)
	case got.State != ebs.VolumeInUse:
		return failure.New(failure.Unready, "check volume", target, "its state is %s", got.State)
	}
	v.Zone, v.Type, v.SizeGiB = got.Zone, got.Spec.Type, got.Spec.SizeGiB
	v.IOPS, v.ThroughputMiB = got.Spec.IOPS, got.Spec.ThroughputMiB
	v.Encrypted, v.KMSKey = got.Encrypted, got.KMSKey
	return nil
}

// checkAccount checks the quota of pending snapshots and the permission to cut each instance.
func checkAccount(ctx context.Context, e ebs.Account, t *cluster.Topology, quota int) error {
	pending, err := e.PendingSnapshots(ctx)
	if err != nil {
		return failure.Annotate(err, "count pending snapshots", "")
	}
	if n := len(t.VolumeIDs()); pending+n > quota {
		return failure.New(failure.Limited, "check quota", "pending snapshots", "%d are pending, %d more would be made, and EC2 allows %d", pending, n, quota).
			WithHint("wait until other snapshots of the account are completed, or tell the account's real limit by --pending-quota")
	}
	return failure.Annotate(
		e.Probe(ctx, ebs.ActionCreateSnapshots, string(t.Stores[0].Instance), t.Stores[0].Volumes[0].Zone),
		"check permissions", string(t.Stores[0].Instance))
}

// settings are what keeps the resolved ts at 0 when one of them is off (TiDB Operator's FAQ).
const settings = "resolved-ts.enable (TiKV), raftstore.report-min-resolved-ts-interval (TiKV) and min-resolved-ts-persistence-interval (PD)"

// checkResolvedTS refuses a resolved ts that is off, too old, or behind GC.
func checkResolvedTS(ctx context.Context, p PD, name cluster.Name, maxLag time.Duration) error {
	got, err := p.ResolvedTS(ctx)
	if err != nil {
		return failure.Annotate(err, "read resolved ts", name.String())
	}
	return CheckResolvedTS(ctx, p, name, got.TS, laggard(got.Stores), maxLag)
}

// CheckResolvedTS is the check of a resolved ts, for preflight and for the one that becomes the backup ts.
func CheckResolvedTS(ctx context.Context, p PD, name cluster.Name, ts cluster.TS, slowest string, maxLag time.Duration) error {
	if ts == 0 {
		return failure.New(failure.Unready, "check resolved ts", name.String(), "it is 0: the stores do not report it").
			WithHint("turn on %s, or wait a minute after the cluster's start", settings)
	}
	now, err := p.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", name.String())
	}
	if lag := ts.Lag(now.Time()); lag > maxLag {
		return failure.New(failure.Unready, "check resolved ts", name.String(), "it lags %s behind, more than --max-lag %s%s", lag, maxLag, slowest).
			WithHint("restart or transfer the leaders of the store that lags, or look for a very long transaction")
	}
	_, gc, err := p.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", name.String())
	}
	if gc > ts {
		return failure.New(failure.Unready, "check resolved ts", name.String(), "the GC safe point %d is past the resolved ts %d", gc, ts).
			WithHint("raise tidb_gc_life_time, and find out why the resolved ts lags behind")
	}
	return nil
}

// laggard names the store with the lowest resolved ts.
func laggard(stores map[cluster.StoreID]cluster.TS) string {
	var worst cluster.StoreID
	for id, ts := range stores {
		if worst == 0 || ts < stores[worst] {
			worst = id
		}
	}
	if worst == 0 {
		return ""
	}
	return "; the lowest is store " + worst.String() + "'s"
}
