package earlyapply_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestRead_GoesByTheKey(t *testing.T) {
	t.Parallel()
	f := &fleet{limits: map[string]uint64{"A": 1024, "B": 0}}
	got := earlyapply.Read(t.Context(), f, three())
	require.Equal(t, []earlyapply.Setting{{Store: 1, Limit: 1024}}, got.On)
	require.Equal(t, []cluster.StoreID{2}, got.Off)
	require.Equal(t, []cluster.StoreID{3}, got.Absent)
	require.Empty(t, got.Failed)
	require.False(t, got.NotApplicable())
}

func TestSurvey_NotApplicable_OnlyIfEveryStoreLacksIt(t *testing.T) {
	t.Parallel()
	require.True(t, earlyapply.Read(t.Context(), &fleet{}, three()).NotApplicable())
	for name, f := range map[string]*fleet{
		"a store has it":         {limits: map[string]uint64{"A": 1024}},
		"a store has it, at 0":   {limits: map[string]uint64{"B": 0}},
		"a store cannot be read": {refuses: map[string]error{"C": refused()}},
	} {
		require.False(t, earlyapply.Read(t.Context(), f, three()).NotApplicable(), name)
	}
	require.False(t, earlyapply.Read(t.Context(), &fleet{}, nil).NotApplicable(), "no store at all")
}

func TestRead_ContextHasEnded_NoStoreIsTakenForRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := earlyapply.Read(ctx, &fleet{}, three())
	require.Len(t, got.Failed, 3)
	require.False(t, got.NotApplicable())
}

func TestTurnOff_Outcome_IsReadFromTheStore(t *testing.T) {
	t.Parallel()
	lost := failure.New(failure.Unknown, "set", "store", "the answer is lost")
	f := &fleet{
		limits: map[string]uint64{"A": 1024, "B": 1024, "C": 1024},
		sets:   map[string]error{"A": lost}, deaf: map[string]bool{"B": true},
	}
	on := []earlyapply.Setting{{1, 1024}, {2, 1024}, {3, 1024}}
	failed := earlyapply.TurnOff(t.Context(), f, three(), on)
	require.Equal(t, []cluster.StoreID{2}, failed.Stores(), "the store whose answer was lost is off, the one that did nothing is not")
	require.Equal(t, map[string]uint64{"A": 0, "B": 1024, "C": 0}, f.limits)
}

func TestPutBack_OnlyWhatIsStillOff(t *testing.T) {
	t.Parallel()
	f := &fleet{limits: map[string]uint64{"A": 0, "B": 512}}
	old := []earlyapply.Setting{{1, 1024}, {2, 1024}, {3, 1024}, {4, 1024}}
	done, err := earlyapply.PutBack(t.Context(), f, three(), old)
	require.NoError(t, err)
	require.Equal(t, []cluster.StoreID{1}, done)
	require.Equal(t, map[string]uint64{"A": 1024, "B": 512}, f.limits,
		"a store that was set otherwise since, one without the setting and one that is gone stay as they are")
}

func TestPutBack_StoreThatDoesNotDoIt_IsAnError(t *testing.T) {
	t.Parallel()
	f := &fleet{limits: map[string]uint64{"A": 0, "B": 0}, deaf: map[string]bool{"A": true}}
	done, err := earlyapply.PutBack(t.Context(), f, three(), []earlyapply.Setting{{1, 1024}, {2, 1024}})
	require.ErrorContains(t, err, "store 1")
	require.Equal(t, []cluster.StoreID{2}, done)
}
