package volumes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// It is billed by the hour, and what another has enabled stays.
func TestFast_Adopt_IsWhatTheRunEnabledAndDidNotDisable(t *testing.T) {
	t.Parallel()
	asked := journal.FastRestore{Snapshots: []cluster.SnapshotID{"snap-1", "snap-2"}, Zones: []cluster.Zone{"a", "b"}}
	before := map[pair]bool{{"snap-3", "a"}: true}
	for name, row := range map[string]struct {
		earlier *journal.FastRestore
		mine    map[cluster.Zone][]cluster.SnapshotID
		enable  map[cluster.Zone][]cluster.SnapshotID
	}{
		"nothing was asked for": {nil, nil, map[cluster.Zone][]cluster.SnapshotID{"a": {"snap-1"}, "b": {"snap-2"}}},
		"asked for": {
			&asked,
			map[cluster.Zone][]cluster.SnapshotID{"a": {"snap-1"}, "b": {"snap-2"}}, map[cluster.Zone][]cluster.SnapshotID{"a": {"snap-1"}, "b": {"snap-2"}},
		},
		"and ended": {
			&journal.FastRestore{}, map[cluster.Zone][]cluster.SnapshotID{}, map[cluster.Zone][]cluster.SnapshotID{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &Fast{before: before, wanted: []Volume{{Snapshot: "snap-1", Zone: "a"}, {Snapshot: "snap-2", Zone: "b"}, {Snapshot: "snap-3", Zone: "a"}}}
			f.Adopt(row.earlier)
			require.Equal(t, row.mine, f.mine)
			require.Equal(t, row.enable, f.toEnable())
		})
	}
}

// EC2 remembers the client tokens of deleted volumes for hours.
func TestRequest_RunBeganAgain_AsksWithFreshTokens(t *testing.T) {
	t.Parallel()
	tokens := map[string]bool{}
	for restarts := range 3 {
		for generation := 1; generation <= maxGenerations; generation++ {
			m := NewMaker(nil, owner(objstoretest.NewMemory(nil)), Options{}, nil, nil)
			m.Continue(Earlier{Restarts: restarts}, false)
			tokens[m.request(&Volume{Store: 1, Snapshot: "snap-1", generation: generation}, 0).Token] = true
		}
	}
	require.Len(t, tokens, 3*maxGenerations)
}

// half is an EC2 that has the volume of one snapshot, and makes others.
type half struct{ EBS }

func (half) FindVolumes(context.Context, ebs.Tags) ([]ebs.Volume, error) {
	return []ebs.Volume{
		{ID: "vol-old", State: ebs.VolumeAvailable, Tags: ebs.Tags{ebs.TagSnapshot: "snap-1"}},
		{ID: "vol-dead", State: ebs.VolumeError, Tags: ebs.Tags{ebs.TagSnapshot: "snap-2"}},
	}, nil
}

func (half) CreateVolume(_ context.Context, req ebs.VolumeRequest) (ebs.Volume, error) {
	return ebs.Volume{ID: "vol-new-" + cluster.VolumeID(req.Snapshot)}, nil
}

func (half) PutTags(context.Context, []string, ebs.Tags) error { return nil }

// Where EC2 had no room for the rate, an earlier process has asked without it, with another token: the same request now,
// with the rate, would make a second volume.
func TestCreate_RateWasNotToBeHad_TakesWhatAnEarlierProcessMade(t *testing.T) {
	t.Parallel()
	m := NewMaker(half{}, owner(objstoretest.NewMemory(nil)), Options{Timeout: time.Minute}, nil, nil)
	m.Begin(Plan{Volumes: []Volume{{Snapshot: "snap-1"}, {Snapshot: "snap-2"}}, fill: planFill(100, 2)})
	m.Continue(Earlier{Epoch: 1}, true)
	var created Created
	require.NoError(t, m.owner.Runner.Check(t.Context(), phase.Step{
		Phase: "p", Name: "create", Deadline: time.Minute, ReadOnly: true,
		Do: func(ctx context.Context, s *phase.Scope) (err error) {
			created, err = m.Create(ctx, s)
			return err
		},
	}))
	require.Equal(t, Created{"snap-1": "vol-old", "snap-2": "vol-new-snap-2"}, created)
}
