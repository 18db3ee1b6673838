package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// One run has the prefix; another one can neither take nor free it.
func TestLockForBR_OneRunHasThePrefix(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
	mine, theirs := catalog.Claim{ID: "a", Run: "run-1"}, catalog.Claim{ID: "b", Run: "run-2"}
	require.NoError(t, c.UnlockForBR(ctx, mine.Run), "nothing to do")
	for range 2 {
		require.NoError(t, c.LockForBR(ctx, mine))
	}
	later := mine
	later.ClaimedAt = time.Now()
	require.NoError(t, c.LockForBR(ctx, later), "another process of the same run")
	held, err := c.HolderForBR(ctx)
	require.NoError(t, err)
	require.Equal(t, mine.Run, held.Run)
	require.Equal(t, failure.Conflict, failure.KindOf(c.LockForBR(ctx, theirs)))
	require.Equal(t, failure.Conflict, failure.KindOf(c.CheckFreeForBR(ctx, theirs.ID)))
	require.NoError(t, c.UnlockForBR(ctx, theirs.Run))
	_, _, err = c.Store.Get(ctx, manifest.BRLock)
	require.NoError(t, err, "it is not theirs to free")
	require.NoError(t, c.UnlockForBR(ctx, mine.Run))
	require.NoError(t, c.CheckFreeForBR(ctx, theirs.ID))
	require.NoError(t, c.LockForBR(ctx, theirs))
}

// A lock of br's own is text: it is never taken for ours.
func TestUnlockForBR_LockOfBR_Stays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
	_, err := c.Store.Create(ctx, manifest.BRLock, []byte("DO NOT DELETE"))
	require.NoError(t, err)
	require.NoError(t, c.UnlockForBR(ctx, "run-1"))
	_, _, err = c.Store.Get(ctx, manifest.BRLock)
	require.NoError(t, err)
}

// The Operator's clustermeta does not count as used; another's backupmeta does, and stays.
func TestCheckFreeForBR_WhatCountsAsUsed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
	_, err := c.Store.Create(ctx, manifest.BRClusterMeta, []byte("{}"))
	require.NoError(t, err)
	require.NoError(t, c.CheckFreeForBR(ctx, "a"))
	require.Equal(t, failure.Conflict, failure.KindOf(c.CheckFree(ctx, "a")))
	_, err = c.Store.Create(ctx, manifest.BRBackupMeta, []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, failure.Conflict, failure.KindOf(c.CheckFreeForBR(ctx, "a")))
}

// A deleted backup leaves no trace of itself at the root; what is not its own stays.
func TestRemove_BackupInAPrefixOfTheOperators_LeavesNothingOfItAtTheRoot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct {
		root string
		run  cluster.RunID
		left []string
	}{
		"its own":       {"meta of a", "run-1", []string{}},
		"another one's": {"meta of b", "run-2", []string{manifest.BRLock, manifest.BRBackupMeta}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
			require.NoError(t, k.Claim(ctx, catalog.Claim{ID: "a", Run: "run-1"}))
			require.NoError(t, k.LockForBR(ctx, catalog.Claim{ID: "a", Run: c.run}))
			for key, body := range map[string]string{manifest.BackupMetaKey("a"): "meta of a", manifest.BRBackupMeta: c.root} {
				_, err := k.Store.Create(ctx, key, []byte(body))
				require.NoError(t, err)
			}
			for range 2 {
				require.NoError(t, k.Remove(ctx, "a", "run-1"))
			}
			left, err := k.Store.List(ctx, "")
			require.NoError(t, err)
			keys := []string{}
			for _, o := range left {
				keys = append(keys, o.Key)
			}
			require.ElementsMatch(t, c.left, keys)
		})
	}
}

// The document of an earlier Restore is kept beside its place, which is free then; again and again.
func TestSetRestoredAside_KeepsIt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plan := &fault.Plan{}
	c := catalog.Catalog{Store: objstoretest.NewMemory(plan)}
	aside, err := c.SetRestoredAside(ctx)
	require.NoError(t, err)
	require.Empty(t, aside)
	kept := map[string]string{}
	for _, doc := range []string{"first", "second", "first"} {
		_, err = c.Store.Create(ctx, manifest.BRRestoreMeta, []byte(doc))
		require.NoError(t, err)
		aside, err = c.SetRestoredAside(ctx)
		require.NoError(t, err)
		kept[aside] = doc
		_, _, err = c.Store.Get(ctx, manifest.BRRestoreMeta)
		require.Equal(t, failure.NotFound, failure.KindOf(err))
	}
	require.Len(t, kept, 2)

	_, err = c.Store.Create(ctx, manifest.BRRestoreMeta, []byte("third"))
	require.NoError(t, err)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.DeleteObject", Position: fault.Slow, Do: func() {
		_, version, err := c.Store.Get(ctx, manifest.BRRestoreMeta)
		require.NoError(t, err)
		_, err = c.Store.Replace(ctx, manifest.BRRestoreMeta, []byte("of another Restore"), version)
		require.NoError(t, err)
	}}))
	_, err = c.SetRestoredAside(ctx)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	body, _, err := c.Store.Get(ctx, manifest.BRRestoreMeta)
	require.NoError(t, err)
	require.Equal(t, "of another Restore", string(body))
	for key, doc := range kept {
		body, _, err := c.Store.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, doc, string(body))
	}
}

// What names an unproven cut is the run's own, is no backupmeta, and is away when a backupmeta is there.
func TestPutCutForBR_IsNoBackupmeta(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
	m := sample("cut")
	require.NoError(t, c.LockForBR(ctx, catalog.Claim{ID: m.ID, Run: m.Run}))
	require.NoError(t, c.ForgetCutForBR(ctx, m.Run), "nothing to do")
	require.NoError(t, c.PutCutForBR(ctx, m))
	body, _, err := c.Store.Get(ctx, manifest.BRCutMeta)
	require.NoError(t, err)
	d, err := manifest.ParseBR(body)
	require.NoError(t, err)
	require.Equal(t, failure.Corrupt, failure.KindOf(d.Validate()), "it has no backup ts")
	for _, s := range d.TiKV.Stores {
		for _, v := range s.Volumes {
			require.NotEmpty(t, v.SnapshotID)
		}
	}
	_, err = c.LoadBR(ctx)
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	require.NoError(t, c.ForgetCutForBR(ctx, "another"))
	_, _, err = c.Store.Get(ctx, manifest.BRCutMeta)
	require.NoError(t, err, "it is not another run's to delete")

	require.NoError(t, c.PutForBR(ctx, m))
	_, _, err = c.Store.Get(ctx, manifest.BRCutMeta)
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	require.NoError(t, c.ForgetForBR(ctx, m.ID, m.Run))
	_, _, err = c.Store.Get(ctx, manifest.BRCutMeta)
	require.NoError(t, err, "until the snapshots are deleted")
	require.NoError(t, c.ForgetCutForBR(ctx, m.Run))
	require.NoError(t, c.UnlockForBR(ctx, m.Run))
	require.NoError(t, c.CheckFreeForBR(ctx, "next"))
}
