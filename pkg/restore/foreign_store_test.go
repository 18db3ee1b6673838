package restore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/restore"
)

// joinedStore is a PD whose list has an empty store more so many times.
type joinedStore struct {
	restore.PD
	times *atomic.Int64
}

func (p joinedStore) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	if err == nil && len(stores) > 0 && p.times.Add(-1) >= 0 {
		more := stores[0]
		more.ID, more.Address, more.State = 99, "127.0.0.1:1", pd.StoreUp
		stores = append(stores, more)
	}
	return stores, err
}

// strayStore is a PD that has, so many times, its first store in another pod.
type strayStore struct {
	restore.PD
	times *atomic.Int64
}

func (p strayStore) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	if err == nil && len(stores) > 0 && p.times.Add(-1) >= 0 {
		stores[0].Address, stores[0].State = "stray-tikv-0.stray-tikv-peer.tidb.svc:20160", pd.StoreUp
	}
	return stores, err
}

// An empty store joins and PD, which is new, gives it the id of a store of the backup.
func TestRun_EmptyStoreGetsTheIDOfARestoredOne_IsRefusedAndUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var times atomic.Int64
	deps, opts := l.next(t, &atStep{step: "await-stores", begin: func() { times.Store(3) }, end: func() {}})
	opts.Serial = true // so that no other step is shown it
	open := deps.OpenPD
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		p, err := open(ctx, addresses)
		return strayStore{p, &times}, err
	}
	_, err := restore.Run(within(t), deps, opts)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "is in pod stray-tikv-0")
	l.nothingLeft(t)
}

// An empty store joins while the stores are waited for: PD may give it peers of regions that are not resolved.
func TestRun_EmptyStoreJoins_IsRefusedAndUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var times atomic.Int64
	deps, opts := l.next(t, &atStep{step: "await-stores", begin: func() { times.Store(3) }, end: func() {}})
	opts.Serial = true // so that no other step is shown it
	open := deps.OpenPD
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		p, err := open(ctx, addresses)
		return joinedStore{p, &times}, err
	}
	_, err := restore.Run(within(t), deps, opts)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "store 99 is up, and the backup has no such store")
	l.nothingLeft(t)
}
