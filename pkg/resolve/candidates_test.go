package resolve

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// oneCandidate is a region that is to be led by store 2, and whose log is the mark's.
func oneCandidate() (*regionStates, cluster.Region) {
	leader := plan.Leader{Region: 7, Store: 2, Version: 3, Term: 5, Index: 10, Keys: cluster.KeyRange{}}
	v := newRegionStates(&plan.Plan{Leaders: []plan.Leader{leader}}, marks.NewSet([]marks.Mark{{Region: 7, Version: 3, Term: 5, Index: 10}}))
	return v, cluster.Region{ID: 7, Version: 3, Leader: cluster.Peer{ID: 9, Store: 2}}
}

// scannedTiKV answers every scan for a lock alike.
type scannedTiKV struct {
	TiKV
	locked bool
	err    error
}

func (s scannedTiKV) AnyLock(context.Context, string, cluster.Region) (bool, error) {
	return s.locked, s.err
}

// Only the region whose logs were compared, led by the peer that was compared, is unchanged if it has no lock.
func TestScanRegion_NotTheOneThatWasCompared_HasChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(v *regionStates, region *cluster.Region)
		want   regionState
	}{
		{"the one that was compared", func(*regionStates, *cluster.Region) {}, unchanged},
		{"another peer has come to lead", func(_ *regionStates, r *cluster.Region) { r.Leader.Store = 3 }, changed},
		{"another peer was asked to lead", func(v *regionStates, r *cluster.Region) {
			v.moved(map[cluster.RegionID]cluster.StoreID{7: 3})
		}, changed},
		{"it was split meanwhile", func(_ *regionStates, r *cluster.Region) { r.Version++ }, candidate},
		{"another region has its keys", func(_ *regionStates, r *cluster.Region) { r.ID++ }, candidate},
		{"a part of it is another region's", func(_ *regionStates, r *cluster.Region) { r.Keys.End = cluster.EncodedKey("k") }, candidate},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, region := oneCandidate()
			c.change(v, &region)
			b := &flashback{states: v, tikv: scannedTiKV{}}
			require.NoError(t, b.scanRegion(t.Context(), "store", tikv.Flashback{Region: region}))
			require.Equal(t, []int{0}, v.list(c.want), "a candidate that stays one is flashed back, as is one that has changed")
		})
	}
}

// A region is unchanged only if the store reports that none of its keys is locked.
func TestScanRegion_WhatTheStoreAnswers_Decides(t *testing.T) {
	t.Parallel()
	elsewhere := &tikv.RegionError{Region: 7, Kind: tikv.RegionStale}
	for _, c := range []struct {
		name  string
		store scannedTiKV
		want  regionState
		err   error
	}{
		{"no lock", scannedTiKV{}, unchanged, nil},
		{"a lock", scannedTiKV{locked: true}, changed, nil},
		{"another run has prepared it", scannedTiKV{err: &tikv.RegionError{Region: 7, Kind: tikv.RegionInFlashback}}, changed, nil},
		{"it is led elsewhere", scannedTiKV{err: elsewhere}, candidate, elsewhere},
		{"the store does not answer", scannedTiKV{err: context.DeadlineExceeded}, candidate, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, region := oneCandidate()
			b := &flashback{states: v, tikv: c.store}
			require.ErrorIs(t, b.scanRegion(t.Context(), "store", tikv.Flashback{Region: region}), c.err)
			require.Equal(t, []int{0}, v.list(c.want))
		})
	}
}
