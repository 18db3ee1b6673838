package hold_test

import (
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// An import that runs in the window would be in the log but not in the volumes.
// https://github.com/tikv/tikv/issues/15521
// Catalogue: A13.
func TestImportsInTheWindow(t *testing.T) {
	t.Parallel()
	t.Run("a running one is found before any pause", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		p.c.Stores()[1].SetImportRunning(true)
		before := p.paused()
		e := p.backup(t)
		require.Equal(t, exitUnready, e.code, e.String())
		require.Contains(t, e.stderr, "import")
		require.Equal(t, before, p.paused())
		p.leftNothing(t)
	})
	t.Run("--on-import=wait waits for its end", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		store := p.c.Stores()[1]
		store.SetImportRunning(true)
		time.AfterFunc(2*time.Second, func() { store.SetImportRunning(false) })
		e := p.backup(t, "--on-import", "wait")
		p.sealed(t, e, 6)
	})
	t.Run("the suspension is lost", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		store := p.c.Stores()[1]
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: func() { p.resumeImports(t, store.Addr()) }})
		e := p.backup(t, attempts(1)...)
		p.reached(t)
		require.Equal(t, exitConflict, e.code, e.String())
		require.Contains(t, e.stderr, store.Addr())
		require.Contains(t, e.stderr, "imports")
		p.leftNothing(t)
	})
}

// A backup that must not disturb an import sends no pause; one that may reports how long it did.
// https://github.com/pingcap/tidb-operator/issues/5282
// Catalogue: A14.
func TestImportOfTheUser(t *testing.T) {
	t.Parallel()
	t.Run("--on-import=refuse", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		p.c.Stores()[0].SetImportRunning(true)
		before := p.paused()
		e := p.backup(t, "--on-import", "refuse")
		require.Equal(t, exitUnready, e.code, e.String())
		require.Equal(t, before, p.paused(), "a pause was sent")
		p.leftNothing(t)
	})
	t.Run("--on-import=pause", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		p.c.Stores()[0].SetImportRunning(true)
		e := p.backup(t, "--on-import", "pause")
		p.sealed(t, e, 6)
		var parts []string
		for _, part := range e.doc.Report.Hold.Parts {
			parts = append(parts, part.Name)
		}
		require.Contains(t, parts, "suspend imports")
	})
}

// What is paused already is another tool's hold: it is named, refused, and stays as it was: not resumed, and not for
// another time.
// https://github.com/pingcap/tidb/issues/44182
// Catalogue: A19.
func TestPausedByAnotherTool_IsLeftExactlyAsItWas(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3)
	theirs := p.c.PD.Schedulers()[1].Name
	require.NoError(t, p.c.PD.PauseByOther(theirs, 10*time.Minute))
	p.setTTL(t, "600", `{"schedule.max-merge-region-size": 7}`)
	until := p.c.PD.Schedulers()[1].ResumeAt
	before := p.c.Held()
	require.Len(t, before, 2)
	e := p.backup(t)
	require.Equal(t, exitConflict, e.code, e.String())
	require.Contains(t, e.stderr, "scheduler "+theirs+" is paused until")
	require.Contains(t, e.stderr, "schedule.max-merge-region-size is overridden to 7")
	require.Equal(t, before, p.c.Held())
	require.Equal(t, until, p.c.PD.Schedulers()[1].ResumeAt, "until when they paused it")
}

// No stores is no cluster, and a store that one side does not know is no sound one.
// https://github.com/pingcap/tidb-operator/issues/5658
// Catalogue: A20.
func TestStoresDoNotMatch_IsRefused(t *testing.T) {
	t.Parallel()
	t.Run("no store", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		for _, s := range p.c.Stores() {
			p.c.PD.SetStoreState(s.ID(), metapb.StoreState_Tombstone)
		}
		p.refused(t, "no TiKV store")
	})
	t.Run("a store that Kubernetes does not know", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		addStore(t, p, 900)
		p.refused(t, "store 900", "no pod")
	})
	t.Run("a pod whose store PD does not count", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		p.c.PD.SetStoreState(p.c.Stores()[2].ID(), metapb.StoreState_Tombstone)
		p.refused(t, "pod prod-tikv-")
	})
}

// Every store that is no tombstone counts; one that leaves is not a member to rely on.
// https://github.com/pingcap/tidb-operator/issues/5306
// Catalogue: A21.
func TestOfflineAndTombstoneStores(t *testing.T) {
	t.Parallel()
	t.Run("a tombstone does not count", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		addStore(t, p, 901)
		p.c.PD.SetStoreState(901, metapb.StoreState_Tombstone)
		e := p.backup(t)
		p.sealed(t, e, 6)
		require.Equal(t, 3, e.doc.Report.TiKVs)
	})
	t.Run("a store that leaves is not left out", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 4)
		leaving := p.c.Stores()[3]
		p.c.PD.SetStoreState(leaving.ID(), metapb.StoreState_Offline)
		p.refused(t, "store "+id(leaving), "Offline")
		p.c.PD.SetStoreState(leaving.ID(), metapb.StoreState_Up)
		e := p.backup(t)
		p.sealed(t, e, 8)
		require.Equal(t, 4, e.doc.Report.TiKVs)
	})
}

// refused requires that a backup is refused, in words, before it pauses anything.
func (p *place) refused(t *testing.T, words ...string) {
	t.Helper()
	before := p.paused()
	e := p.backup(t)
	require.Equal(t, exitUnready, e.code, e.String())
	for _, w := range words {
		require.Contains(t, e.stderr, w)
	}
	require.Equal(t, before, p.paused())
	p.leftNothing(t)
}

// addStore makes PD know a store that runs nowhere.
func addStore(t *testing.T, p *place, storeID uint64) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	resp, err := p.c.PD.PutStore(ctx, &pdpb.PutStoreRequest{Store: &metapb.Store{Id: storeID, Address: "127.0.0.1:1", Version: "8.5.8"}})
	require.NoError(t, err)
	require.Nil(t, resp.GetHeader().GetError())
	_, err = p.c.PD.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Stats: &pdpb.StoreStats{StoreId: storeID}})
	require.NoError(t, err)
}
