package preflight

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// RegionVersions lists all regions' versions, so that a later check can see which have changed. A region whose boundary
// is not memcomparable-encoded is Unready: a label or placement rule with a raw key made PD split there, and no TiKV
// call can address the data in such a region.
func RegionVersions(ctx context.Context, p PD, name cluster.Name) (map[cluster.RegionID]uint64, error) {
	regions, err := p.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return nil, failure.Annotate(err, "list regions", name.String())
	}
	versions := make(map[cluster.RegionID]uint64, len(regions))
	for _, r := range regions {
		if _, err := tikv.DecodeRange(r.Keys); err != nil {
			return nil, failure.New(failure.Unready, "check regions", name.String(), "region %s is %s: %w", r.ID,
				r.Keys, err).
				WithHint(
					"find the region label rule or placement rule with this key (pd-ctl region-label, pd-ctl config " +
						"placement-rules), " +
						"remove it or give it an encoded key, and run this again once PD has merged the region")
		}
		versions[r.ID] = r.Version
	}
	return versions, nil
}
