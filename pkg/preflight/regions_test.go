package preflight_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// regionsOf is PD with these regions.
type regionsOf struct {
	preflight.PD
	all []cluster.Region
}

func (r regionsOf) Regions(context.Context, cluster.KeyRange) ([]cluster.Region, error) {
	return r.all, nil
}

// encoded is a key as TiKV encodes it, of at most seven letters.
func encoded(key string) cluster.EncodedKey {
	out := make(cluster.EncodedKey, 9)
	copy(out, key)
	out[8] = 0xff - byte(8-len(key))
	return out
}

// A label rule with a raw key makes PD split there; within the hold that was found three times over, 15 s each.
func TestRegionVersions_KeyIsNotEncoded_IsRefusedByName(t *testing.T) {
	t.Parallel()
	p := regionsOf{all: []cluster.Region{
		{ID: 2, Version: 3, Keys: cluster.KeyRange{End: encoded("t1")}},
		{ID: 4, Version: 5, Keys: cluster.KeyRange{Start: encoded("t1")}},
	}}
	versions, err := preflight.RegionVersions(t.Context(), p, prod)
	require.NoError(t, err)
	require.Equal(t, map[cluster.RegionID]uint64{2: 3, 4: 5}, versions)
	p.all[1].Keys.End = cluster.EncodedKey("t2")
	p.all = append(p.all, cluster.Region{ID: 6, Keys: cluster.KeyRange{Start: cluster.EncodedKey("t2")}})
	_, err = preflight.RegionVersions(t.Context(), p, prod)
	require.Equal(t, failure.Unready, failure.KindOf(err), err)
	require.ErrorContains(t, err, "region 4 is [")
	require.ErrorContains(t, err, "7432")
	require.Contains(t, failure.HintOf(err), "pd-ctl region-label")
	p.all[1].Keys.End = encoded("t2")
	_, err = preflight.RegionVersions(t.Context(), p, prod)
	require.ErrorContains(t, err, "region 6 is [7432, +inf)")
}
