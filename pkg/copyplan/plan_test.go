package copyplan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/failure"
)

const gib = int64(1) << 30

func snapshot(n int, bytes int64) copyplan.Snapshot {
	return copyplan.Snapshot{
		ID: cluster.SnapshotID(fmt.Sprintf("snap-%03d", n)), Volume: cluster.VolumeID(fmt.Sprintf("vol-%03d", n)), Bytes: bytes,
	}
}

func TestMake_LargestFirst_WithTheReasonOfEach(t *testing.T) {
	t.Parallel()
	var all []copyplan.Snapshot
	for n := range 7 {
		s := snapshot(n, int64(n+1)*gib)
		s.Key, s.KeyUnknown = "k", n == 6
		all = append(all, s)
	}
	p := copyplan.Make(all, map[cluster.VolumeID]copyplan.Before{
		"vol-001": {Exists: true, Keys: []string{"k"}},
		"vol-002": {Keys: []string{"k"}},
		"vol-003": {Exists: true, Archived: true, Keys: []string{"k"}},
		"vol-004": {Exists: true, Keys: []string{"k", "other"}},
		"vol-005": {Exists: true, Keys: []string{""}},
		"vol-006": {Exists: true, Keys: []string{"k"}},
	})
	var order []cluster.SnapshotID
	var why []copyplan.Reason
	for _, c := range p.Copies {
		order, why = append(order, c.ID), append(why, c.Full)
	}
	require.Equal(t, []cluster.SnapshotID{"snap-006", "snap-005", "snap-004", "snap-003", "snap-002", "snap-001", "snap-000"}, order)
	require.Equal(t, []copyplan.Reason{
		copyplan.UnknownKey, copyplan.OtherKey, copyplan.OtherKey, copyplan.Archived, copyplan.Deleted, copyplan.Incremental, copyplan.First,
	}, why)
	require.Equal(t, 2*gib, p.ChangedBytes)
	require.Equal(t, 26*gib, p.FullBytes)
}

// Whatever ends in whatever order: never more than the slots, never a volume twice, and all are made.
func TestNext_UntilAllAreDone_KeepsTheRules(t *testing.T) {
	t.Parallel()
	var all []copyplan.Snapshot
	for n := range 50 {
		s := snapshot(n, int64(1+n*7%50)*gib)
		s.Volume = cluster.VolumeID(fmt.Sprintf("vol-%03d", n%30))
		all = append(all, s)
	}
	p := copyplan.Make(all, nil)
	running, done := map[cluster.SnapshotID]bool{}, map[cluster.SnapshotID]bool{}
	volumes := map[cluster.SnapshotID]cluster.VolumeID{}
	for len(done) < len(all) {
		for _, c := range p.Next(running, done, copyplan.Slots) {
			require.False(t, running[c.ID] || done[c.ID])
			running[c.ID], volumes[c.ID] = true, c.Volume
		}
		require.NotEmpty(t, running)
		require.LessOrEqual(t, len(running), copyplan.Slots)
		busy := map[cluster.VolumeID]bool{}
		for id := range running {
			require.False(t, busy[volumes[id]], "%s twice", volumes[id])
			busy[volumes[id]] = true
		}
		for id := range running { // whichever comes first
			delete(running, id)
			done[id] = true
			break
		}
	}
	require.Empty(t, p.Next(running, done, copyplan.Slots))
	first := p.Next(nil, nil, 3)
	require.Len(t, first, 3)
	require.Equal(t, p.Copies[0].ID, first[0].ID)
	require.Empty(t, p.Next(nil, nil, 0))
}

func TestCheckWithin_BelowTheThroughput_Refused(t *testing.T) {
	t.Parallel()
	var thirty []copyplan.Snapshot
	for n := range 30 {
		thirty = append(thirty, snapshot(n, 3000*gib))
	}
	twice := []copyplan.Snapshot{snapshot(1, 3000*gib), snapshot(2, 3000*gib)}
	twice[1].Volume = twice[0].Volume
	all := map[cluster.VolumeID]copyplan.Before{}
	for _, s := range thirty {
		all[s.Volume] = copyplan.Before{Exists: true, Keys: []string{""}}
	}
	one := map[cluster.VolumeID]copyplan.Before{"vol-000": all["vol-000"]}
	unknown := slices.Clone(thirty[:1])
	unknown[0].KeyUnknown = true
	for name, test := range map[string]struct {
		snapshots []copyplan.Snapshot
		before    map[cluster.VolumeID]copyplan.Before
		// least is for what is surely moved, and within for all data.
		least, within time.Duration
	}{
		"nothing":                      {nil, nil, 0, 0},
		"one, by what one copy gets":   {thirty[:1], nil, 6144 * time.Second, 6144 * time.Second},
		"two of one volume in a row":   {twice, nil, 2 * 6144 * time.Second, 2 * 6144 * time.Second},
		"thirty, by the regions' pair": {thirty, nil, 46080 * time.Second, 46080 * time.Second},
		"thirty after thirty":          {thirty, all, 0, 46080 * time.Second},
		"two, one after another":       {thirty[:2], one, 6144 * time.Second, 6144 * time.Second},
		"thirty, one after another":    {thirty, one, 44544 * time.Second, 46080 * time.Second},
		"one of an unknown key":        {unknown, one, 0, 6144 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := copyplan.Make(test.snapshots, test.before)
			require.Equal(t, test.least, p.Least(copyplan.RateOfPair))
			require.Equal(t, test.within, p.AllChanged(copyplan.RateOfPair))
			require.NoError(t, p.CheckWithin(test.within, copyplan.RateOfPair))
			if test.within == 0 {
				return
			}
			err := p.CheckWithin(test.within-time.Second, copyplan.RateOfPair)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}

func TestEach_RoundsShareTheTime(t *testing.T) {
	t.Parallel()
	var thirty []copyplan.Snapshot
	for n := range 30 {
		thirty = append(thirty, snapshot(n, 100*gib))
	}
	twice := []copyplan.Snapshot{snapshot(1, gib), snapshot(2, gib)}
	twice[1].Volume = twice[0].Volume
	for name, test := range map[string]struct {
		snapshots    []copyplan.Snapshot
		within, each time.Duration // 0 is refused
	}{
		"one has all of it":           {thirty[:1], time.Hour, time.Hour},
		"never longer than EC2 takes": {thirty[:20], 60 * time.Hour, 48 * time.Hour},
		"thirty in two rounds":        {thirty, time.Hour, 30 * time.Minute},
		"rounded down to EC2's step":  {thirty, 100 * time.Minute, 45 * time.Minute},
		"two of one volume":           {twice, time.Hour, 30 * time.Minute},
		"a round is too short":        {thirty, 30 * time.Minute, 0},
		"shorter than EC2 takes":      {twice, 15 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each, err := copyplan.Make(test.snapshots, nil).Each(test.within, copyplan.RateOfPair)
			require.Equal(t, test.each, each)
			if test.each == 0 {
				require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
		})
	}
}
