package volumes

import (
	"context"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// CheckQuotas compares the planned volumes with the account's quotas and their use. If the role may not read quotas,
// EC2 decides later.
func (p Planner) CheckQuotas(ctx context.Context, s *phase.Scope, plan Plan, fast *Fast) error {
	quotas, err := p.EC2.Quotas(ctx)
	if err != nil {
		if failure.Is(err, failure.Denied) || failure.Is(err, failure.Usage) {
			s.Note("could not read the quotas: %v", err)
			return fast.Check(ctx, plan.Volumes, ebs.AccountQuotas{})
		}
		return failure.Annotate(err, "read quotas", p.EC2.Region())
	}
	if err := fast.Check(ctx, plan.Volumes, quotas); err != nil {
		return err
	}
	if err := CheckRoom(ctx, p.EC2, plan.Volumes, quotas); err != nil {
		return err
	}
	return p.checkMaxIOPS(ctx, plan.Volumes)
}

// CheckRoom refuses volumes for which the account's quotas, as far as they are known, leave no room.
func CheckRoom(ctx context.Context, e ebs.Account, volumes []Volume, quotas ebs.AccountQuotas) error {
	if len(quotas.StorageGiB) == 0 && len(quotas.IOPS) == 0 {
		return nil
	}
	used, err := e.Usage(ctx)
	if err != nil {
		return failure.Annotate(err, "read usage of quotas", e.Region())
	}
	return overQuota(volumes, quotas, used)
}

// overQuota compares per volume type. A missing or zero quota is unknown.
func overQuota(volumes []Volume, quotas ebs.AccountQuotas, used ebs.Usage) error {
	storage, iops := map[string]int64{}, map[string]int64{}
	for _, v := range volumes {
		storage[v.Spec.Type] += v.Spec.SizeGiB
		iops[v.Spec.Type] += v.Spec.IOPS
	}
	for _, volumeType := range slices.Sorted(maps.Keys(storage)) {
		for _, row := range []struct {
			what              string
			more, used, quota int64
		}{
			{"GiB of storage", storage[volumeType], used.StorageGiB[volumeType], quotas.StorageGiB[volumeType]},
			{"IOPS", iops[volumeType], used.IOPS[volumeType], quotas.IOPS[volumeType]},
		} {
			if row.quota > 0 && row.used+row.more > row.quota {
				return failure.New(failure.Limited, "check quotas", volumeType,
					"the restore needs %d %s, %d are used and the quota is %d",
					row.more, row.what, row.used, row.quota).
					WithHint("raise the quota of %s for %s volumes in Service Quotas, free some of it, or choose "+
						"another --volume-type", row.what, volumeType).
					Lasting()
			}
		}
	}
	return nil
}

// usualIOPS is available for one gp3 volume in every region; above it some regions lag behind the documentation.
const usualIOPS = 16_000

// checkMaxIOPS asks EC2, for each type and zone with high IOPS, how many one volume may have there.
func (p Planner) checkMaxIOPS(ctx context.Context, volumes []Volume) error {
	type place struct {
		volumeType string
		zone       cluster.Zone
	}
	wanted := map[place]int64{}
	for _, v := range volumes {
		if v.Spec.IOPS > usualIOPS || (v.Spec.Type != "gp3" && v.Spec.IOPS > 0) {
			at := place{v.Spec.Type, v.Zone}
			wanted[at] = max(wanted[at], v.Spec.IOPS)
		}
	}
	for at, iops := range wanted {
		limit, err := p.EC2.MaxIOPS(ctx, at.volumeType, at.zone)
		if err != nil {
			return failure.Annotate(err, "ask for the maximum of IOPS", at.volumeType+" in "+string(at.zone))
		}
		if limit > 0 && iops > limit {
			return failure.New(failure.Usage, "check volume parameters", at.volumeType+" in "+string(at.zone),
				"%d IOPS are asked for, and EC2 gives one volume %d there", iops, limit).
				WithHint("choose at most %d by --volume-iops", limit)
		}
	}
	return nil
}
