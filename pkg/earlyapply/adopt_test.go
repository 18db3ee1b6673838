package earlyapply_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
)

func none(context.Context) ([]cluster.Region, error) { return nil, nil }

func TestAwaitAdopted_WaitsForEveryLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{early: map[string][]int{"A": {5, 3, 0}, "B": {1, 0}}}
		start := time.Now()
		require.Empty(t, earlyapply.AwaitAdopted(t.Context(), f, f, three(), none))
		require.Equal(t, 2*time.Second+400*time.Millisecond, time.Since(start))
	})
}

// A leader that was just elected does not count as applying early, and does a moment later if it has not ticked.
func TestAwaitAdopted_FirstAnswerOfNone_IsNotBelievedBeforeATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		start := time.Now()
		require.Empty(t, earlyapply.AwaitAdopted(t.Context(), f, f, three(), none))
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestAwaitAdopted_LeadersThatSleep_AreWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{early: map[string][]int{"B": {1}}}
		f.wakes = func(cluster.RegionID) { f.early["B"] = []int{0} }
		regions := func(context.Context) ([]cluster.Region, error) {
			return []cluster.Region{{ID: 10, Leader: cluster.Peer{Store: 1}}, {ID: 20, Leader: cluster.Peer{Store: 2}}}, nil
		}
		require.Empty(t, earlyapply.AwaitAdopted(t.Context(), f, f, three(), regions))
		require.Equal(t, []cluster.RegionID{20}, f.woken, "only those of the store whose leaders still apply early")
	})
}

func TestAwaitAdopted_Bounded_NamesTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := &fleet{early: map[string][]int{"B": {2}}, refuses: map[string]error{"C": refused()}}
		left := earlyapply.AwaitAdopted(ctx, f, f, three(), none)
		require.Equal(t, []cluster.StoreID{2, 3}, left.Stores())
		require.ErrorContains(t, left[2], "2 of its leaders still apply early")
		require.ErrorContains(t, left[3], "common name not allowed")
	})
}
