package restore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A part of a cluster is restored only by runs that know of the other parts.
func TestLoad_PartOfACluster_IsNotTakenForTheWhole(t *testing.T) {
	t.Parallel()
	m := &manifest.Manifest{ID: "b", Source: cluster.Topology{Stores: []cluster.Store{{ID: 1}}}}
	m.Kubernetes.TidbCluster = []byte(`{"status":{"tikv":{"peerStores":{"3":{},"2":{}}}}}`)
	load := func(by creator) (*run, error) {
		r := newRun(Deps{Store: objstoretest.NewMemory(nil)}, Options{Manifest: m}, by)
		return r, r.runner.Check(t.Context(), phase.Step{Phase: phaseData, Name: "load", Deadline: time.Minute, Do: r.load})
	}
	_, err := load(byRun)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it is of 1 stores, and 2 more of the cluster are in other Kubernetes clusters")
	r, err := load(byBR)
	require.NoError(t, err)
	require.Equal(t, []cluster.StoreID{1, 2, 3}, r.allStores(), "all have to be up before the data are resolved")
}

// markedPD is a PD that is marked recovering, or not.
type markedPD struct {
	PD

	marked bool
}

func (p markedPD) Recovering(context.Context) (bool, error) { return p.marked, nil }

func TestCheckTargetStores_OnlyPreparedPartsMayBeThere(t *testing.T) {
	t.Parallel()
	up := func(ids ...cluster.StoreID) (stores []pd.Store) {
		for _, id := range ids {
			stores = append(stores, pd.Store{ID: id, State: pd.StoreUp})
		}
		return stores
	}
	for name, c := range map[string]struct {
		stores []pd.Store
		marked bool
		want   failure.Kind // 0 is none
	}{
		"none":                         {nil, false, 0},
		"of another part, in recovery": {up(2, 3), true, 0},
		"of another part, serving":     {up(2, 3), false, failure.Conflict},
		"its own":                      {up(1), true, failure.Conflict},
		"its own beside another's":     {up(1, 2), true, failure.Conflict},
		"of no run":                    {up(9), true, failure.Conflict},
		"of the past":                  {[]pd.Store{{ID: 9, State: pd.StoreTombstone}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{Store: objstoretest.NewMemory(nil)}, Options{}, byRun)
			r.pd.PD, r.backup.elsewhere = markedPD{marked: c.marked}, []cluster.StoreID{2, 3}
			err := r.pd.checkStores(t.Context(), c.stores, r.backup.elsewhere)
			if c.want == 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.want, failure.KindOf(err), "%v", err)
		})
	}
}
