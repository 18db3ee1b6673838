package volumes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
)

// What is planned is handed on as a value: who has it cannot change what the maker makes, nor does a made volume change it.
func TestMaker_PlanAndVolumes_AreTheCallersOwn(t *testing.T) {
	t.Parallel()
	m, plan := NewMaker(nil, Owner{}, Options{}, nil, nil), Plan{Volumes: []Volume{{Snapshot: "snap-1"}}}
	m.Begin(plan)
	m.volumes[0].ID = "vol-1"
	changed := cluster.SnapshotID("snap-2")
	plan.Volumes[0].Snapshot, m.Plan().Volumes[0].Snapshot, m.Volumes()[0].Snapshot = changed, changed, changed
	require.Equal(t, []Volume{{Snapshot: "snap-1"}}, m.Plan().Volumes)
	require.Equal(t, []Volume{{Snapshot: "snap-1", ID: "vol-1"}}, m.Volumes())

	require.Equal(t, kube.Names{Pod: "p"}, m.Plan().Named([]kube.Names{{Pod: "p"}}).Volumes[0].Names)
	require.Empty(t, plan.Named([]kube.Names{{Pod: "p"}}).Volumes[0].ID)
	require.Empty(t, plan.Volumes[0].Names, "a named plan is another one")
}
