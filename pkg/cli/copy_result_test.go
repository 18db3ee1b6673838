package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// What incremental copies take is no lower bound: it counts only if every block has changed.
func TestCopyPlan_Time_OfIncrementalCopiesOnlyIfAllHasChanged(t *testing.T) {
	t.Parallel()
	snapshots := []copyplan.Snapshot{{ID: "snap-1", Volume: "vol-1", Bytes: 6000 << 30}, {ID: "snap-2", Volume: "vol-2", Bytes: 3000 << 30}}
	before := copyplan.Before{Exists: true, Keys: []string{""}}
	prices, err := estimate.DefaultPrices()
	require.NoError(t, err)
	for name, row := range map[string]struct {
		before map[cluster.VolumeID]copyplan.Before
		want   string
	}{
		"all in full":     {nil, "\nin 3h25m at least\n"},
		"one in full":     {map[cluster.VolumeID]copyplan.Before{"vol-1": before}, "\nin 1h42m at least, 3h25m if every block has changed\n"},
		"all incremental": {map[cluster.VolumeID]copyplan.Before{"vol-1": before, "vol-2": before}, "\nin 3h25m at least if every block has changed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := &copyrun.Plan{Plan: copyplan.Make(snapshots, row.before)}
			plan.Least, plan.AllChanged = plan.Plan.Least(copyplan.RateOfPair), plan.Plan.AllChanged(copyplan.RateOfPair)
			doc := copyPlan(copyrun.Options{}, &copyrun.Deps{To: objstoretest.NewMemory(nil)}, plan, prices)
			var out bytes.Buffer
			require.NoError(t, write(&out, "table", doc, view{}))
			require.Contains(t, out.String(), row.want)
		})
	}
}

// EC2 bills a time that is asked for besides the transfer, also within a region.
func TestCopyPlan_Within_IsInTheBill(t *testing.T) {
	t.Parallel()
	prices, err := estimate.DefaultPrices()
	require.NoError(t, err)
	unpriced := *prices
	unpriced.Snapshot.CopyWithinGB = nil
	for name, row := range map[string]struct {
		prices *estimate.Prices
		each   time.Duration
		to     string
		want   string
	}{
		"as EC2 does it":          {prices, 0, "eu-west-1", "\nat most 20.48 USD for the transfer, and 51.20 USD a month\n"},
		"in an hour":              {prices, time.Hour, "eu-west-1", "\nat most 20.48 USD for the transfer, 20.48 USD for --within, and 51.20 USD a month\n"},
		"in an hour, in a region": {prices, time.Hour, "us-west-2", "\nat most 0.00 USD for the transfer, 20.48 USD for --within, and 51.20 USD a month\n"},
		"without a price":         {&unpriced, time.Hour, "eu-west-1", " not known USD for --within,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := &copyrun.Plan{
				Plan:       copyplan.Make([]copyplan.Snapshot{{ID: "snap-1", Volume: "vol-1", Bytes: 1 << 40}}, nil),
				FromRegion: "us-west-2", ToRegion: row.to, Each: row.each,
			}
			doc := copyPlan(copyrun.Options{}, &copyrun.Deps{To: objstoretest.NewMemory(nil)}, plan, row.prices)
			var out bytes.Buffer
			require.NoError(t, write(&out, "table", doc, view{}))
			require.Contains(t, out.String(), row.want)
		})
	}
}
