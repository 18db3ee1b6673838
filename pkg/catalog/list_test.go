package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestList_AllStates_AreShown(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "a-sealed")
	require.NoError(t, c.PutManifest(t.Context(), sample("b-unsealed")))
	require.NoError(t, c.Claim(t.Context(), claimOf("c-claimed", "run-2")))
	sealed(t, c, "d-lost")
	require.NoError(t, store.Delete(t.Context(), manifest.ManifestKey("d-lost")))
	sealed(t, c, "e-cut")
	put(t, store, manifest.ManifestKey("e-cut"), "{")
	put(t, store, manifest.ManifestKey("f-garbage"), "{")
	put(t, store, manifest.BackupPrefix("g-stray")+"stray", "{}")
	put(t, store, manifest.SealKey("h-newer"), `{"apiVersion":"tisnap.io/v2","kind":"Seal"}`)
	put(t, store, "backups/not a backup", "")
	put(t, store, "runs/r/journal/000000.json", "{}")

	entries, err := c.List(t.Context())
	require.NoError(t, err)
	states, problems := map[cluster.BackupID]catalog.State{}, map[cluster.BackupID]string{}
	for _, e := range entries {
		states[e.ID], problems[e.ID] = e.State, e.Problem
	}
	require.Equal(t, map[cluster.BackupID]catalog.State{
		"a-sealed": catalog.StateSealed, "b-unsealed": catalog.StateUnsealed, "c-claimed": catalog.StateUnsealed,
		"d-lost": catalog.StateDamaged, "e-cut": catalog.StateDamaged, "f-garbage": catalog.StateDamaged,
		"g-stray": catalog.StateDamaged, "h-newer": catalog.StateDamaged,
	}, states)
	require.Contains(t, problems["d-lost"], "missing")
	require.Contains(t, problems["e-cut"], "1 bytes")
	require.Contains(t, problems["g-stray"], "neither")
	require.Contains(t, problems["h-newer"], "newer tisnap")
	require.Equal(t, catalog.Entry{
		ID: "a-sealed", State: catalog.StateSealed, Run: "run-1", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"},
		ClusterID: 7, Version: "8.5.0", BackupTS: cluster.MakeTS(created, 0), CreatedAt: created, SealedAt: created.Add(time.Hour),
		Stores: 1, Snapshots: 1, SizeGiB: 100, DataBytes: 1 << 30, CoveredBy: []string{"pitr"},
	}, entries[0], "the oldest first")
}

func TestList_Empty_IsNoError(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	entries, err := c.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestList_ReadFails_IsAnErrorNotAShortList(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t, fault.Rule{Point: "s3.GetObject", Nth: 10, Times: -1, Code: "SlowDown"})
	for _, id := range []cluster.BackupID{"a", "b"} {
		require.NoError(t, c.PutManifest(t.Context(), sample(id)))
	}
	for range 5 {
		_, err := c.List(t.Context())
		if err != nil {
			require.Equal(t, failure.Limited, failure.KindOf(err))
			return
		}
	}
	t.Fatal("the fault was not reached")
}
