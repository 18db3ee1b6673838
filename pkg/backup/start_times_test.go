package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestCheckStarts_OfTheCutAndOfNoOther(t *testing.T) {
	t.Parallel()
	const s = time.Second
	type set struct {
		started   time.Duration // after the request, by EC2's clock
		took      time.Duration
		ambiguous bool
	}
	for name, row := range map[string]struct {
		sets   []set
		refuse string
	}{
		"at the time of the requests":         {[]set{{started: s / 2, took: s}, {started: s, took: 2 * s}}, ""},
		"EC2's clock is an hour ahead":        {[]set{{started: time.Hour, took: s}, {started: time.Hour, took: s}}, ""},
		"EC2's clock is a minute behind":      {[]set{{started: -60 * s, took: s}, {started: -60 * s, took: s}}, ""},
		"one was carried out late":            {[]set{{started: s, took: s}, {started: 40 * s, took: 41 * s, ambiguous: true}}, ""},
		"one is of the attempt before":        {[]set{{started: s / 2, took: s}, {started: -16 * s, took: 9 * s, ambiguous: true}}, "it is not of this cut"},
		"the same, and EC2's clock is ahead":  {[]set{{started: 60 * s, took: s}, {started: 44 * s, took: 9 * s, ambiguous: true}}, "it is not of this cut"},
		"all answers lost, and all are older": {[]set{{started: -16 * s, took: 9 * s, ambiguous: true}}, "by this machine's clock"},
		"all answers lost":                    {[]set{{started: 0, took: 9 * s, ambiguous: true}}, ""},
		"no snapshot":                         {nil, "no snapshot was made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sets, start := newSets(), time.Now()
			for i, one := range row.sets {
				id := cluster.StoreID(i + 1)
				sets.begun[id], sets.ended[id] = start, start.Add(one.took)
				sets.put(id, []ebs.Snapshot{{ID: cluster.SnapshotID("snap-" + id.String()), StartedAt: start.Add(one.started)}})
				if one.ambiguous {
					sets.noteAmbiguous(id, ebs.CutRequest{}, start)
				}
			}
			err := sets.checkStarts(cluster.Name{Namespace: "tidb", Name: "prod"})
			if row.refuse == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.refuse)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}
