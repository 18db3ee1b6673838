package catalog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

type announced = map[cluster.BackupID]bool

func prodName() cluster.Name { return cluster.Name{Namespace: "tidb", Name: "prod"} }

// announce announces a backup of run-1, and returns what others had announced at each check. do is called at the first.
func announce(t *testing.T, c catalog.Catalog, id cluster.BackupID, do func()) (seen []announced, err error) {
	t.Helper()
	err = c.AnnounceDeletion(t.Context(), prodName(), manifest.Deletion{ID: id, Run: "run-1"}, func(_ context.Context, others announced) error {
		seen = append(seen, others)
		if len(seen) == 1 && do != nil {
			do()
		}
		return nil
	})
	return seen, err
}

func announceNow(t *testing.T, c catalog.Catalog, id cluster.BackupID) {
	t.Helper()
	_, err := announce(t, c, id, nil)
	require.NoError(t, err)
}

// Whatever is announced between the check and the write is seen by a second check.
func TestAnnounceDeletion_AnotherOneMeanwhile_IsCheckedAgain(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before []cluster.BackupID
		do     func(*testing.T, catalog.Catalog)
		second announced
	}{
		"the first one of the cluster": {nil, func(t *testing.T, c catalog.Catalog) {
			announceNow(t, c, "b2")
		}, announced{"b2": true}},
		"beside an earlier one": {[]cluster.BackupID{"b3"}, func(t *testing.T, c catalog.Catalog) {
			announceNow(t, c, "b2")
		}, announced{"b2": true, "b3": true}},
		// b2 was announced and buried, and then left out by one who announced b3 again: the same is written there as before.
		"and buried, and left out": {[]cluster.BackupID{"b3"}, func(t *testing.T, c catalog.Catalog) {
			announceNow(t, c, "b2")
			require.NoError(t, c.Bury(t.Context(), "b2", "", "deleted", false))
			announceNow(t, c, "b3")
		}, announced{"b3": true}},
		"the same backup": {nil, func(t *testing.T, c catalog.Catalog) {
			announceNow(t, c, "b1")
		}, announced{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCatalog(t)
			for _, id := range []cluster.BackupID{"b1", "b2", "b3"} {
				sealed(t, c, id)
			}
			for _, id := range row.before {
				announceNow(t, c, id)
			}
			seen, err := announce(t, c, "b1", func() { row.do(t, c) })
			require.NoError(t, err)
			require.Len(t, seen, 2)
			require.Equal(t, row.second, seen[1])
		})
	}
}

func TestAnnounceDeletion_WhatIsBuriedGoneOrMadeAgain_IsLeftOut(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	for _, id := range []cluster.BackupID{"b1", "buried", "gone", "again", "damaged", "stays"} {
		sealed(t, c, id)
		if id != "b1" {
			announceNow(t, c, id)
		}
	}
	require.NoError(t, c.Bury(t.Context(), "buried", "", "deleted", false))
	for _, id := range []cluster.BackupID{"gone", "again"} {
		require.NoError(t, c.Bury(t.Context(), id, "", "deleted", false))
		require.NoError(t, c.Remove(t.Context(), id, ""))
	}
	m := sample("again")
	m.Run = "run-2"
	require.NoError(t, c.PutManifest(t.Context(), m))
	require.NoError(t, c.Seal(t.Context(), "again", created, 0))
	put(t, store, manifest.SealKey("damaged"), "{")
	seen, err := announce(t, c, "b1", nil)
	require.NoError(t, err)
	require.Equal(t, []announced{{"stays": true, "damaged": true}}, seen)
	doc, _, err := store.Get(t.Context(), manifest.DeletionsKey(prodName()))
	require.NoError(t, err)
	stored, err := manifest.DecodeDeletions(doc)
	require.NoError(t, err)
	require.Len(t, stored.Backups, 3, "%s", doc)
}

func TestAnnounceDeletion_Refused_NothingIsWritten(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	before := store.MutatingCalls()
	refusal := failure.New(failure.Conflict, "delete backup", "b1", "it is the last one")
	err := c.AnnounceDeletion(t.Context(), prodName(), manifest.Deletion{ID: "b1", Run: "run-1"},
		func(context.Context, announced) error { return refusal })
	require.ErrorIs(t, err, refusal)
	require.Equal(t, before, store.MutatingCalls())
}

func TestAnnounceDeletion_StorageFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rule fault.Rule
		fine bool
	}{
		"the answer is lost":   {fault.Rule{Point: "s3.PutObject", Position: fault.After, Nth: 5}, true},
		"it cannot be written": {fault.Rule{Point: "s3.PutObject", Position: fault.Before, Nth: 5}, false},
		"it cannot be read":    {fault.Rule{Point: "s3.GetObject", Position: fault.Before, Nth: 6}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := newCatalog(t, row.rule)
			sealed(t, c, "b1")
			_, err := announce(t, c, "b1", nil)
			assert.Equal(t, row.fine, err == nil, "%v", err)
			_, _, err = store.Get(t.Context(), manifest.DeletionsKey(prodName()))
			assert.Equal(t, row.fine, err == nil, "%v", err)
			announceNow(t, c, "b1")
		})
	}
}

func TestAnnounceDeletion_RecordUnreadable_Fails(t *testing.T) {
	t.Parallel()
	for doc, kind := range map[string]failure.Kind{
		"{": failure.Corrupt, `{"apiVersion":"tisnap.io/v1","kind":"Seal"}`: failure.Corrupt,
		`{"apiVersion":"tisnap.io/v9","kind":"Deletions"}`: failure.Usage,
	} {
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			c, store := newCatalog(t)
			sealed(t, c, "b1")
			put(t, store, manifest.DeletionsKey(prodName()), doc)
			_, err := announce(t, c, "b1", nil)
			require.Equal(t, kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "b1")
		})
	}
}

// Each writes over what it read, so all are in the record in the end, and each saw those before it.
func TestAnnounceDeletion_ManyAtOnce_AllAreInTheRecord(t *testing.T) {
	t.Parallel()
	const n = 12
	c, store := newCatalog(t)
	saw := make([]int, n)
	for i := range n {
		sealed(t, c, cluster.BackupID(fmt.Sprint("b", i)))
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			err := c.AnnounceDeletion(t.Context(), prodName(), manifest.Deletion{ID: cluster.BackupID(fmt.Sprint("b", i)), Run: "run-1"},
				func(_ context.Context, others announced) error { saw[i] = len(others); return nil })
			assert.NoError(t, err)
		})
	}
	all.Wait()
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	require.ElementsMatch(t, want, saw, "two did not see each other")
	doc, _, err := store.Get(t.Context(), manifest.DeletionsKey(prodName()))
	require.NoError(t, err)
	stored, err := manifest.DecodeDeletions(doc)
	require.NoError(t, err)
	require.Len(t, stored.Backups, n)
}
