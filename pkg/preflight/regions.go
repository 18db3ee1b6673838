package preflight

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// RegionVersions lists the versions of all regions, by which a later look at them knows what has changed since.
func RegionVersions(ctx context.Context, p PD, name cluster.Name) (map[cluster.RegionID]uint64, error) {
	regions, err := p.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return nil, failure.Annotate(err, "list regions", name.String())
	}
	versions := make(map[cluster.RegionID]uint64, len(regions))
	for _, r := range regions {
		versions[r.ID] = r.Version
	}
	return versions, nil
}
