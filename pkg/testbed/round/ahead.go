package round

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// Ahead is what the snapshots of a backup hold of early apply, read from their bytes: no store has to run for it.
type Ahead struct {
	State manifest.EarlyApplyState // as the backup recorded it; "" if it did not
	// Ahead counts the replicas whose data are ahead of their own logs. Affected lists those of them whose data are ahead of
	// the best log of their region: no log undoes what they have.
	Ahead    int
	Affected []Replica
	// Best is how many of these have the best log alone.
	Best int
}

// Replica is a store's replica of a region.
type Replica struct{ Region, Store uint64 }

// String is as tisnap names it.
func (r Replica) String() string { return fmt.Sprintf("region %d on store %d", r.Region, r.Store) }

// Ahead reads the snapshots of the backup.
func (p *Prepared) Ahead(ctx context.Context) (*Ahead, error) {
	store, err := objstore.Open(ctx, Storage, objstore.Config{Region: testbed.Region, Endpoint: p.Bed().AWS()})
	if err != nil {
		return nil, err
	}
	m, err := catalog.Catalog{Store: store}.Load(ctx, BackupID)
	if err != nil {
		return nil, err
	}
	images := map[cluster.StoreID]map[cluster.Role]*disk.Image{}
	for _, s := range m.Snapshots {
		if images[s.Store] == nil {
			images[s.Store] = map[cluster.Role]*disk.Image{}
		}
		if images[s.Store][s.Role], err = p.Bed().EC2.Image(s.ID); err != nil {
			return nil, err
		}
	}
	regions := map[uint64]map[uint64]tikvtest.OnVolumes{}
	for id, of := range images {
		on, replicas, err := tikvtest.ReadVolumes(of[cluster.RoleData], of[cluster.RoleRaftLog])
		if err != nil || on != uint64(id) {
			return nil, fmt.Errorf("read snapshots of store %s: they are of store %d: %w", id, on, err)
		}
		for _, r := range replicas {
			if regions[r.Region] == nil {
				regions[r.Region] = map[uint64]tikvtest.OnVolumes{}
			}
			regions[r.Region][on] = r
		}
	}
	out := judgeAhead(regions)
	if m.EarlyApply != nil {
		out.State = m.EarlyApply.State
	}
	return out, nil
}

// judgeAhead compares the replicas of each region, by region and store.
func judgeAhead(regions map[uint64]map[uint64]tikvtest.OnVolumes) *Ahead {
	out := &Ahead{}
	for _, replicas := range regions {
		var best tikvtest.OnVolumes
		with := 0 // replicas with the best log
		for _, r := range replicas {
			switch {
			case r.Term > best.Term || r.Term == best.Term && r.Last > best.Last:
				best, with = r, 1
			case r.Term == best.Term && r.Last == best.Last:
				with++
			}
		}
		for on, r := range replicas {
			if r.Applied > r.Last {
				out.Ahead++
			}
			if r.Applied <= best.Last {
				continue
			}
			out.Affected = append(out.Affected, Replica{r.Region, on})
			if with == 1 && r.Term == best.Term && r.Last == best.Last {
				out.Best++
			}
		}
	}
	return out
}
