package catalog_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var created = time.Date(2026, 11, 21, 8, 10, 0, 0, time.UTC)

func sample(id cluster.BackupID) *manifest.Manifest {
	v := cluster.Volume{ID: "vol-1", Role: cluster.RoleData, Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100}}
	return &manifest.Manifest{
		ID: id, Run: "run-1", Region: "us-west-2", BackupTS: cluster.MakeTS(created, 0), CreatedAt: created,
		Source: cluster.Topology{
			Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7, Version: "8.5.0",
			Stores: []cluster.Store{{ID: 1, Volumes: []cluster.Volume{v}}},
		},
		Snapshots:  []manifest.Snapshot{manifest.NewSnapshot("snap-1", 1, v, created)},
		LogBackups: []manifest.LogBackup{{Name: "pitr", StartTS: 1, Checkpoint: cluster.MakeTS(created, 0)}, {Name: "new"}},
	}
}

func claimOf(id cluster.BackupID, run cluster.RunID) catalog.Claim {
	return catalog.Claim{ID: id, Run: run, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClaimedAt: created}
}

func newCatalog(t *testing.T, rules ...fault.Rule) (catalog.Catalog, *objstoretest.Memory) {
	t.Helper()
	plan := new(fault.Plan)
	for _, r := range rules {
		require.NoError(t, plan.Add(r))
	}
	store := objstoretest.NewMemory(plan)
	return catalog.Catalog{Store: store}, store
}

// sealed makes a whole backup.
func sealed(t *testing.T, c catalog.Catalog, id cluster.BackupID) {
	t.Helper()
	require.NoError(t, c.Claim(t.Context(), claimOf(id, "run-1")))
	require.NoError(t, c.PutManifest(t.Context(), sample(id)))
	require.NoError(t, c.Seal(t.Context(), id, created.Add(time.Hour), 1<<30))
}

func put(t *testing.T, store *objstoretest.Memory, key, body string) {
	t.Helper()
	require.NoError(t, store.Delete(t.Context(), key))
	_, err := store.Create(t.Context(), key, []byte(body))
	require.NoError(t, err)
}

func TestLoad_Sealed_GivesTheManifest(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	sealed(t, c, "b1")
	m, err := c.Load(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, sample("b1").Snapshots, m.Snapshots)
	require.Equal(t, created.Add(time.Hour), m.SealedAt)
}

func TestLoad_NotRestorable_ErrorGivesTheReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, c catalog.Catalog, store *objstoretest.Memory)
		kind    failure.Kind
		text    string
	}{
		"unknown": {func(*testing.T, catalog.Catalog, *objstoretest.Memory) {}, failure.NotFound, "no such backup in memory://"},
		"claimed": {func(t *testing.T, c catalog.Catalog, _ *objstoretest.Memory) {
			require.NoError(t, c.Claim(t.Context(), claimOf("b1", "r")))
		}, failure.Unready, "is not sealed"},
		"unsealed": {func(t *testing.T, c catalog.Catalog, _ *objstoretest.Memory) {
			require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
		}, failure.Unready, "is not sealed"},
		"manifest lost": {func(t *testing.T, c catalog.Catalog, s *objstoretest.Memory) {
			sealed(t, c, "b1")
			require.NoError(t, s.Delete(t.Context(), manifest.ManifestKey("b1")))
		}, failure.Corrupt, "no such key"},
		"manifest changed": {func(t *testing.T, c catalog.Catalog, s *objstoretest.Memory) {
			sealed(t, c, "b1")
			put(t, s, manifest.ManifestKey("b1"), "{}")
		}, failure.Corrupt, "sealed were"},
		"objects of another backup": {func(t *testing.T, c catalog.Catalog, s *objstoretest.Memory) {
			sealed(t, c, "b2")
			for _, key := range []func(cluster.BackupID) string{manifest.ManifestKey, manifest.SealKey} {
				body, _, err := s.Get(t.Context(), key("b2"))
				require.NoError(t, err)
				put(t, s, key("b1"), string(body))
			}
		}, failure.Corrupt, "is of backup b2"},
		"store fails": {func(*testing.T, catalog.Catalog, *objstoretest.Memory) {}, failure.Limited, "SlowDown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rules []fault.Rule
			if name == "store fails" {
				rules = append(rules, fault.Rule{Point: "s3.*", Code: "SlowDown"})
			}
			c, store := newCatalog(t, rules...)
			test.prepare(t, c, store)
			_, err := c.Load(t.Context(), "b1")
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.kind, failure.KindOf(err))
		})
	}
}

func TestLoad_Typo_HintNamesTheNearest(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	for _, id := range []cluster.BackupID{"prod-20261120", "prod-20261121", "zzz"} {
		require.NoError(t, c.Claim(t.Context(), claimOf(id, "r")))
	}
	_, err := c.Load(t.Context(), "prod-2026112")
	require.Equal(t, "did you mean prod-20261120, prod-20261121? see `tisnap list`", failure.HintOf(err))
	_, err = c.Load(t.Context(), "something")
	require.Equal(t, "see `tisnap list`", failure.HintOf(err))
	_, err = c.Load(t.Context(), "../x")
	require.Equal(t, failure.Usage, failure.KindOf(err))
}

func TestClaim_Taken_IsConflict(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	require.NoError(t, c.CheckFree(t.Context(), "b1"))
	require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")))
	require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")), "the same run resumes")
	err := c.Claim(t.Context(), claimOf("b1", "run-2"))
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "--name")
	require.Equal(t, failure.Conflict, failure.KindOf(c.CheckFree(t.Context(), "b1")))
	require.NoError(t, c.Claim(t.Context(), claimOf("b10", "run-2")), "b1 is not a prefix of b10")
}

func TestClaim_ObjectsWithoutClaim_IsConflict(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	put(t, store, manifest.BackupPrefix("b1")+"stray", "{}")
	require.Equal(t, failure.Conflict, failure.KindOf(c.Claim(t.Context(), claimOf("b1", "run-1"))))
}

func TestClaim_PrefixOfBR_IsConflict(t *testing.T) {
	t.Parallel()
	for _, marker := range manifest.BRMarkers() {
		t.Run(marker, func(t *testing.T) {
			t.Parallel()
			c, store := newCatalog(t)
			put(t, store, marker, "{}")
			for _, err := range []error{c.Claim(t.Context(), claimOf("b1", "r")), c.CheckFree(t.Context(), "b1")} {
				require.Equal(t, failure.Conflict, failure.KindOf(err))
				require.ErrorContains(t, err, marker)
				require.Contains(t, failure.HintOf(err), "--storage")
			}
			err := c.ClaimForBR(t.Context(), claimOf("b1", "r"))
			require.Equal(t, marker == manifest.BRClusterMeta, err == nil, "%v", err)
		})
	}
}

func TestClaim_AnswerLost_IsOurs(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t, fault.Rule{Point: "s3.PutObject", Position: fault.After})
	require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")))
}

func TestClaim_Race_OneWins(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { errs[i] = c.Claim(t.Context(), claimOf("b1", cluster.RunID(fmt.Sprint("run-", i)))) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			require.Equal(t, failure.Conflict, failure.KindOf(err))
		}
	}
	require.Equal(t, 1, won)
}

func TestPutManifestAndSeal_Again_IsTheSame(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Times: -1})
	for range 2 {
		require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
	}
	for i := range 2 {
		require.NoError(t, c.Seal(t.Context(), "b1", created.Add(time.Duration(i)*time.Hour), 0))
	}
	m, err := c.Load(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, created, m.SealedAt, "the first seal stays")
	other := sample("b1")
	other.BackupTS++
	require.Equal(t, failure.Conflict, failure.KindOf(catalog.Catalog{Store: store}.PutManifest(t.Context(), other)))
}

// It is unknown whether the manifest that is there is ours: that is no conflict, which would end a run.
func TestPutManifest_WhatIsThereCannotBeRead_IsNoConflict(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t, fault.Rule{Point: "s3.GetObject", Times: -1})
	require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
	err := c.PutManifest(t.Context(), sample("b1"))
	require.Error(t, err)
	require.NotEqual(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

func TestSeal_ManifestMissingOrSealOfAnother_IsRefused(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	require.Equal(t, failure.NotFound, failure.KindOf(c.Seal(t.Context(), "b1", created, 0)))
	require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
	put(t, store, manifest.SealKey("b1"), "{}")
	require.Equal(t, failure.Corrupt, failure.KindOf(c.Seal(t.Context(), "b1", created, 0)))
}

func TestReport_Stored_IsReplaced(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	for _, body := range []string{"1", "2"} {
		require.NoError(t, c.PutReport(t.Context(), "b1", "r", []byte(body)))
		got, _, err := store.Get(t.Context(), manifest.ReportKey("b1", "r"))
		require.NoError(t, err)
		require.Equal(t, body, string(got))
	}
}

func TestLoadBR_BackupMetaAtTheRoot_IsRead(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	_, err := c.LoadBR(t.Context())
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	put(t, store, manifest.BRBackupMeta, "{}")
	_, err = c.LoadBR(t.Context())
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	doc, err := os.ReadFile("../manifest/testdata/backupmeta.recorded.json")
	require.NoError(t, err)
	put(t, store, manifest.BRBackupMeta, string(doc))
	m, err := c.LoadBR(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, "br-"+m.BackupTS.String(), m.ID)
	require.Len(t, m.Snapshots, 3)
}
