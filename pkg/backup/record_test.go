package backup

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// regionsOnly is a PD that lists regions and nothing else.
type regionsOnly struct {
	PD
	regions []cluster.Region
}

func (r regionsOnly) Regions(context.Context, cluster.KeyRange) ([]cluster.Region, error) {
	return r.regions, nil
}

// A restore asks for a majority of Replicas: with a larger number than a region has it would find none.
func TestRegionFacts_ReplicasAreTheFewestVotersOfARegion(t *testing.T) {
	t.Parallel()
	voter := func(id cluster.PeerID) cluster.Peer { return cluster.Peer{ID: id, Store: 1} }
	learner := cluster.Peer{ID: 99, Store: 4, Learner: true}
	few := cluster.Region{ID: 7, Peers: []cluster.Peer{voter(11), voter(12), learner}}
	many := cluster.Region{ID: 8, Peers: []cluster.Peer{voter(21), voter(22), voter(23)}}
	for name, regions := range map[string][]cluster.Region{"few first": {few, many}, "few last": {many, few}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := recorder{pd: regionsOnly{regions: regions}}
			largest, voters, err := w.regionFacts(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, voters)
			require.Equal(t, uint64(99), largest)
		})
	}
}

// What a run writes down is of the cluster that the run is of, whatever it adopted.
func TestPut_ManifestOfANamesake_IsNotWritten(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	r := newRun(Deps{Store: store}, Options{Backup: "b", Run: "r"})
	m := &manifest.Manifest{ID: "b", Run: "r", Source: cluster.Topology{ClusterID: 8}}
	r.records.drafted(m)
	err := r.records.put(t.Context(), 7)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "PD's cluster id 8, and the run is of 7")
	objects, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, objects)
}
