package snapshot_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// killed ends the process, as it were, before a number of calls of Put, or before Complete.
type killed struct {
	*ebsdirect.Client
	puts     atomic.Int64 // that are still sent
	complete bool         // is sent, but its answer is lost
}

var errKilled = errors.New("killed")

func (k *killed) Put(ctx context.Context, id cluster.SnapshotID, index int64, data []byte, sum ebsdirect.Sum) error {
	if k.puts.Add(-1) < 0 {
		return errKilled
	}
	return k.Client.Put(ctx, id, index, data, sum)
}

func (k *killed) Complete(ctx context.Context, id cluster.SnapshotID, blocks int64, sum ebsdirect.Sum) error {
	if !k.complete {
		return errKilled
	}
	return errors.Join(k.Client.Complete(ctx, id, blocks, sum), errKilled)
}

func (a *account) make(
	t *testing.T, e ebsdirect.Target, r *repository.Repository, v format.Volume, token string,
) (cluster.SnapshotID, int64, error) {
	t.Helper()
	var wrote atomic.Int64
	id, err := snapshot.Restore(t.Context(), e, a.ec2, r, snapshot.Task{
		Volume: v, Snapshot: ebsdirect.NewSnapshot{Token: token}, Reads: 2, Wrote: func(n int64) { wrote.Add(n) },
	})
	return id, wrote.Load(), err
}

// The same call finishes the same snapshot, wherever the process died.
func TestRestore_KilledAnywhere_TheSameCallFinishesIt(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t), newRepository(t)
	a.write(t, rand.NewChaCha8([32]byte{}), 0, 1, 2, 40, 1000, blocks-1)
	cut := a.cut(t)
	v, _ := a.archive(t, r, cut, nothing, format.Volume{})
	for name, at := range map[string]*killed{
		"before a block": {}, "before the completion": {}, "after the completion": {complete: true},
	} {
		at.Client = a.Client
		if name != "before a block" {
			at.puts.Store(6)
		}
		first, _, err := a.make(t, at, r, v, name)
		require.ErrorIs(t, err, errKilled, name)
		again, wrote, err := a.make(t, a, r, v, name)
		require.NoError(t, err, name)
		require.Equal(t, first, again, name)
		a.completed(t, again)
		requireEqual(t, a.content(t, cut), a.content(t, again))
		third, all, err := a.make(t, a, r, v, name)
		require.NoError(t, err, name)
		require.Equal(t, first, third)
		require.EqualValues(t, 6<<19, all, name)
		if name != "after the completion" {
			require.EqualValues(t, 6<<19, wrote, name)
		}
	}
}

// A damaged block is no snapshot.
func TestRestore_DamagedBlock_CompletesNothing(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t), newRepository(t)
	a.write(t, rand.NewChaCha8([32]byte{}), 0, 1, 2)
	v, _ := a.archive(t, r, a.cut(t), nothing, format.Volume{})
	v.Checksum[0] ^= 1
	id, _, err := a.make(t, a, r, v, "t")
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	found, _, ok := a.server.Snapshot(id)
	require.True(t, ok)
	require.NotEqual(t, "completed", string(found.State))
}

// A segment that is known to be on the snapshot is not read and not put again, and EBS agrees that nothing is missing.
func TestRestore_SegmentIsPut_NothingIsPutAgain(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t), newRepository(t)
	a.write(t, rand.NewChaCha8([32]byte{}), 0, 1, 2, 1000)
	cut := a.cut(t)
	v, _ := a.archive(t, r, cut, nothing, format.Volume{})
	put := map[cluster.SnapshotID]int{}
	var wrote atomic.Int64
	task := snapshot.Task{
		Volume: v, Snapshot: ebsdirect.NewSnapshot{Token: "t"}, Reads: 2,
		Put:    func(id cluster.SnapshotID) int { return put[id] },
		HasPut: func(id cluster.SnapshotID, n int) { put[id] = n },
		Wrote:  func(n int64) { wrote.Add(n) },
	}
	dying := &killed{Client: a.Client}
	dying.puts.Store(4)
	_, err := snapshot.Restore(t.Context(), dying, a.ec2, r, task)
	require.ErrorIs(t, err, errKilled, "before the completion")
	puts := a.Stats().Puts
	wrote.Store(0)
	id, err := snapshot.Restore(t.Context(), a, a.ec2, r, task)
	require.NoError(t, err)
	require.Equal(t, map[cluster.SnapshotID]int{id: 1}, put)
	require.Equal(t, puts, a.Stats().Puts)
	require.EqualValues(t, 4<<19, wrote.Load(), "progress counts them")
	a.completed(t, id)
	requireEqual(t, a.content(t, cut), a.content(t, id))

	// What is only thought to be there is noticed.
	task.Snapshot.Token, task.Put = "another", func(cluster.SnapshotID) int { return 1 }
	_, err = snapshot.Restore(t.Context(), a, a.ec2, r, task)
	require.Error(t, err)
}
