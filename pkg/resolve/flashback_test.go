package resolve_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// unprepared is a store whose region is not prepared any more: the run that has the cluster now is done with it.
type unprepared struct {
	*rack
	flashback func()
	prepares  atomic.Int64
}

func (u *unprepared) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) {
	return nil, 0, nil
}

func (u *unprepared) Regions(context.Context, cluster.KeyRange) ([]cluster.Region, error) {
	return []cluster.Region{{ID: 1, Version: 1, Leader: cluster.Peer{Store: 1}}}, nil
}

func (u *unprepared) Recover(ctx context.Context, _ string, _ []tikv.Command) error {
	<-ctx.Done()
	return ctx.Err()
}

func (u *unprepared) Flashback(_ context.Context, _ string, f tikv.Flashback) error {
	u.flashback()
	return &tikv.RegionError{Region: f.Region.ID, Kind: tikv.RegionNotPrepared, Message: "not prepared"}
}

func (u *unprepared) PrepareFlashback(context.Context, string, tikv.Flashback) error {
	u.prepares.Add(1)
	return nil
}

// A region that the other run has finished serves: to prepare it again would block it for ever. The lock is checked
// between the store's answer and the prepare.
func TestFlashback_LockLostBeforeTheRegionIsPreparedAgain_DoesNotPrepareIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		u := &unprepared{rack: newRack(), flashback: func() { lost.Store(true) }}
		fence := &checkFence{check: func(context.Context) error {
			if lost.Load() {
				return failure.New(failure.Conflict, "check lock", "", "run second has it")
			}
			return nil
		}}
		r := resolve.New(u, nil)
		r.Target(resolve.Config{
			Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "run", BackupTS: 1, Stores: []cluster.StoreID{1, 2, 3},
			Stall: time.Minute, Fence: fence,
		}, u)
		steps := slices.DeleteFunc(r.Steps("resolve data", resolve.StepOptions{}), func(s phase.Step) bool {
			return !slices.Contains([]string{"collect", "plan", "recover", "flashback"}, s.Name)
		})
		err := phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(t.Context(), steps)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "run second has it")
		require.True(t, lost.Load(), "the flashback was sent")
		require.Zero(t, u.prepares.Load())
	})
}
