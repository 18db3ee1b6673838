package resolve_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// affectedLeader is a region whose best log is on store 2, whose data are ahead of it; from the election on, the stores' logs are
// as after returns.
func affectedLeader(after func(store string) tikv.RaftState) *ballot {
	var elected atomic.Bool
	b := &ballot{rack: newRack(), list: listed}
	b.wins = func(cluster.RegionID, cluster.StoreID) bool { elected.Store(true); return true }
	b.report = bestOnStore2(12)
	b.states = func(address string, _ int) (tikv.RaftState, error) {
		store := strings.TrimPrefix(address, "store-")
		switch {
		case elected.Load():
			return after(store), nil
		case store == "2":
			return tikv.RaftState{Term: 5, Last: 12, Applied: 14}, nil
		}
		return tikv.RaftState{Term: 5, Last: 10, Applied: 10}, nil
	}
	b.change = func(c *resolve.Config) { c.Rebuilds = true }
	return b
}

// Another replica leads as soon as it has the whole log of the leader. A log that is longer, but of an older term, is another one.
// Catalogue: G16.
func TestAffectedLeader_HandsOverToOneWithItsWholeLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		b := affectedLeader(func(store string) tikv.RaftState {
			switch {
			case store == "1":
				return tikv.RaftState{Term: 5, Last: 20, Applied: 10}
			case store == "3" && time.Since(begin) < 3*time.Second:
				return tikv.RaftState{Term: 6, Last: 12, Applied: 10}
			}
			return tikv.RaftState{Term: 6, Last: 13, Applied: 13}
		})
		took, err := b.recover(t)
		require.NoError(t, err)
		require.Equal(t, []cluster.StoreID{2, 3}, b.asked)
		require.Equal(t, cluster.StoreID(3), b.leaders[1])
		require.GreaterOrEqual(t, took, 3*time.Second)
	})
}

func TestAffectedLeader_DoesNotAnswer_ItsErrorIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := affectedLeader(func(string) tikv.RaftState { return tikv.RaftState{Term: 6} })
		answers := b.states
		b.states = func(address string, call int) (tikv.RaftState, error) {
			state, err := answers(address, call)
			if state.Term == 6 && address == "store-2" {
				err = failure.New(failure.Unready, "read raft state", address, "connection refused")
			}
			return state, err
		}
		_, err := b.recover(t)
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "nothing has changed for 1m0s")
		require.ErrorContains(t, err, "connection refused")
	})
}

// Catalogue: G16.
func TestAffectedLeader_NoReplicaGetsItsLog_IsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := affectedLeader(func(store string) tikv.RaftState {
			if store == "2" {
				return tikv.RaftState{Term: 6, Last: 13, Applied: 14}
			}
			return tikv.RaftState{Term: 6, Last: 10, Applied: 10}
		})
		took, err := b.recover(t)
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "region 1 on store 2, applied up to index 14: no other replica gets its log, and nothing has changed for 1m0s")
		require.Less(t, took, 2*time.Minute)
		require.Equal(t, []cluster.StoreID{2}, b.asked)
	})
}
