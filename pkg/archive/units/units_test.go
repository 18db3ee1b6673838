package units_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newShared(t *testing.T) (*objstoretest.Memory, *repository.Repository, *units.Shared) {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	r, _, err := archivetest.New(t.Context(), store, 1<<20)
	require.NoError(t, err)
	return store, r, units.Of(r, "one")
}

func TestPublish_ThereIsAPlan_ItCounts(t *testing.T) {
	t.Parallel()
	_, _, s := newShared(t)
	plan := "first"
	require.NoError(t, s.Publish(t.Context(), &plan))
	plan = "second"
	require.NoError(t, s.Publish(t.Context(), &plan))
	require.Equal(t, "first", plan)
}

func TestClaim_TwoProcesses_OneHasIt(t *testing.T) {
	t.Parallel()
	_, _, s := newShared(t)
	id := units.ID{Volume: 1, Segment: 20}
	for _, worker := range []string{"a", "b"} {
		mine, err := s.Claim(t.Context(), id, worker)
		require.NoError(t, err)
		require.Equal(t, worker == "a", mine)
	}
	worker, seen, err := s.Claimer(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "a", worker)
	states, open, err := s.List(t.Context())
	require.NoError(t, err)
	require.False(t, open, "there is no plan")
	require.Equal(t, map[units.ID]units.State{id: {Claimed: seen}}, states)

	for _, worker := range []string{"b", "c"} { // both saw a's claim
		mine, err := s.Reclaim(t.Context(), id, worker, seen)
		require.NoError(t, err)
		require.Equal(t, worker == "b", mine)
	}
}

func TestFinish_Twice_TheFirstCounts(t *testing.T) {
	t.Parallel()
	_, _, s := newShared(t)
	id := units.ID{Volume: 0, Segment: 3}
	require.NoError(t, s.Finish(t.Context(), id, "first"))
	require.NoError(t, s.Finish(t.Context(), id, "second"))
	var got string
	require.NoError(t, s.Result(t.Context(), id, &got))
	require.Equal(t, "first", got)
}

// TestResult_OfAnotherUnit_Refused: who can write to the storage, and has no key, cannot exchange parts of an archive.
func TestResult_OfAnotherUnit_Refused(t *testing.T) {
	t.Parallel()
	store, r, s := newShared(t)
	require.NoError(t, s.Finish(t.Context(), units.ID{Segment: 1}, "one"))
	require.NoError(t, units.Of(r, "other").Finish(t.Context(), units.ID{Segment: 2}, "other"))
	for from, to := range map[string]string{
		"units/one/results/0-1": "units/one/results/0-2", "units/other/results/0-2": "units/one/results/0-3",
	} {
		object, _, err := store.Get(t.Context(), from)
		require.NoError(t, err)
		_, err = store.Create(t.Context(), to, object)
		require.NoError(t, err)
	}
	var got string
	for k := 2; k <= 3; k++ {
		require.True(t, failure.Is(s.Result(t.Context(), units.ID{Segment: k}, &got), failure.Corrupt))
	}
}

func TestTidy_ArchiveInTheMaking_IsKept(t *testing.T) {
	t.Parallel()
	store, r, s := newShared(t)
	held, err := lease.Write(t.Context(), store, "one", "me")
	require.NoError(t, err)
	for _, archive := range []string{"one", "two"} {
		require.NoError(t, units.Of(r, archive).Finish(t.Context(), units.ID{}, "done"))
	}
	require.NoError(t, units.Tidy(t.Context(), store))
	left, err := store.List(t.Context(), "units/")
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "units/one/results/0-0", left[0].Key)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, s.Remove(t.Context()))
	left, err = store.List(t.Context(), "units/")
	require.NoError(t, err)
	require.Empty(t, left)
}
