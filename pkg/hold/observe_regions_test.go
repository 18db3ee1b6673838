package hold_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
)

// What a lease refuses leaves a trace in the epochs; a change of leader is no such thing.
func TestSameRegions_WhatChangedDuringTheCut_IsNamed(t *testing.T) {
	t.Parallel()
	region := func(id cluster.RegionID, confVer, version uint64) cluster.Region {
		return cluster.Region{ID: id, ConfVer: confVer, Version: version}
	}
	before := []cluster.Region{region(4, 1, 2), region(2, 1, 1), region(9, 3, 1)}
	moved := region(9, 3, 1)
	moved.Leader.Store = 7
	require.NoError(t, hold.SameRegions(before, []cluster.Region{moved, region(2, 1, 1), region(4, 1, 2)}))
	for name, c := range map[string]struct {
		now  []cluster.Region
		want string
	}{
		"a merge":          {[]cluster.Region{region(2, 1, 1), region(9, 3, 1)}, "region 4"},
		"the last is gone": {[]cluster.Region{region(2, 1, 1), region(4, 1, 2)}, "region 9"},
		"a split":          {[]cluster.Region{region(2, 1, 1), region(4, 1, 2), region(6, 1, 1), region(9, 3, 1)}, "region 6"},
		"a new last one":   {[]cluster.Region{region(2, 1, 1), region(4, 1, 2), region(9, 3, 1), region(12, 1, 1)}, "region 12"},
		"a new version":    {[]cluster.Region{region(2, 1, 1), region(4, 1, 3), region(9, 3, 1)}, "1/3 after it"},
		"a peer moved":     {[]cluster.Region{region(2, 2, 1), region(4, 1, 2), region(9, 3, 1)}, "2/1 after it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hold.SameRegions(before, c.now)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
		})
	}
}
