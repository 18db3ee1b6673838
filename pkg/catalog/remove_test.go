package catalog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestRemove_Whole_IsBuriedFirstAndTheTombstoneDeletedLast(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	sealed(t, c, "b10")
	require.NoError(t, c.PutReport(t.Context(), "b1", "r", []byte("{}")))
	before := len(store.MutatingCalls())
	require.Equal(t, failure.Conflict, failure.KindOf(c.Remove(t.Context(), "b1", "")), "it is sealed")
	require.NoError(t, c.Bury(t.Context(), "b1", "", "deleted", false))
	require.NoError(t, c.Remove(t.Context(), "b1", ""))
	calls := store.MutatingCalls()[before:]
	require.Equal(t, "PutObject backups/b1/seal.json", calls[0])
	require.Equal(t, "DeleteObject backups/b1/seal.json", calls[len(calls)-1])
	require.NoError(t, c.Remove(t.Context(), "b1", ""), "twice is fine")
	left, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, c.CheckFree(t.Context(), "b1"))
	_, _, err = store.Get(t.Context(), manifest.ReportKey("b1", "r"))
	require.NoError(t, err, "its reports stay")
}

func TestRemove_CrashesAfterEachDelete_IsNeverRestorableAndEndsWhenRepeated(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint("delete ", n), func(t *testing.T) {
			t.Parallel()
			c, _ := newCatalog(t, fault.Rule{Point: "s3.DeleteObject", Position: fault.Before, Nth: n})
			sealed(t, c, "b1")
			require.NoError(t, c.Bury(t.Context(), "b1", "", "deleted", false))
			require.Error(t, c.Remove(t.Context(), "b1", ""))
			_, err := c.Load(t.Context(), "b1")
			require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
			entries, err := c.List(t.Context())
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.Equal(t, catalog.StateRemoving, entries[0].State)
			require.Error(t, c.CheckFree(t.Context(), "b1"), "the id is not free before all is gone")
			require.NoError(t, c.Remove(t.Context(), "b1", ""))
			require.NoError(t, c.CheckFree(t.Context(), "b1"))
		})
	}
}

func TestBury_Unsealed_CannotBeSealedAfterwards(t *testing.T) {
	t.Parallel()
	for name, position := range map[string]fault.Position{"plain": fault.Slow, "the answer is lost": fault.After} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The third write is the tombstone's: a claim and a manifest come before it, and br's document.
			c, _ := newCatalog(t, fault.Rule{Point: "s3.PutObject", Position: position, Nth: 4})
			require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")))
			require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
			require.NoError(t, c.Bury(t.Context(), "b1", "", "its run died", true))
			require.NoError(t, c.Bury(t.Context(), "b1", "", "again", true))
			require.Equal(t, failure.NotFound, failure.KindOf(c.Seal(t.Context(), "b1", created, 0)))
			_, err := c.Load(t.Context(), "b1")
			require.ErrorContains(t, err, "its run died")
			buried, err := c.Buried(t.Context(), "b1")
			require.NoError(t, err)
			require.True(t, buried)
		})
	}
}

func TestBury_SealedAndOnlyUnsealedAskedFor_StaysAsItIs(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	require.Equal(t, failure.Conflict, failure.KindOf(c.Bury(t.Context(), "b1", "", "its run died", true)))
	_, err := c.Load(t.Context(), "b1")
	require.NoError(t, err)
	seal, _, err := store.Get(t.Context(), manifest.SealKey("b1"))
	require.NoError(t, err)
	require.Nil(t, manifest.DecodeTombstone(seal))
	require.NoError(t, c.Bury(t.Context(), "b1", "", "deleted", false))
	_, err = c.Load(t.Context(), "b1")
	require.Equal(t, failure.NotFound, failure.KindOf(err))
}
