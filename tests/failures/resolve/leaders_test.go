package resolve_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// It restarts a store in each sub-phase: it loses its leaders, and is asked again (pingcap/tidb#45206).
// Catalogue: G1.
func TestStoreRestartsInEachSubPhase_IsAskedAgain(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	for _, point := range []string{
		"tikv.*.ReadRegionMeta", "tikv.*.RecoverRegion", "tikv.*.KvPrepareFlashbackToVersion", "tikv.*.KvFlashbackToVersion", "pd.UnmarkRecovering",
	} {
		t.Run(point, func(t *testing.T) {
			name := p.next()
			var restarting sync.WaitGroup
			p.fault(t, fault.Rule{Point: point, Position: fault.Slow, Do: func() {
				pods := p.cluster(name).Pods() // there may be one so far: stores are asked as they come up
				pod := pods[len(pods)-1]
				restarting.Go(func() {
					if err := p.Bed().RestartStore(within(t), name, pod); err != nil {
						t.Errorf("restart %s: %v", pod, err)
					}
				})
			}})
			e := p.restore(t, name)
			require.Zero(t, e.code, "%s: %s", point, e)
			restarting.Wait()
			p.reached(t)
			_, err := p.Bed().AwaitCluster(within(t), name)
			require.NoError(t, err)
			p.verify(t, name)
		})
	}
}

// It lets RecoverRegion make no progress on all stores (tikv/tikv#15122, tikv/tikv#15296): for ever.
// Catalogue: G3.
func TestLeadersAreNotElected_EndsWithTheRegionsNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	p.fault(t, fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Stall, Times: -1})
	e := p.restore(t, name, "--keep-on-failure", "--timeout", "10s")
	require.Equal(t, exitLimited, e.code, e.String())
	p.reached(t)
	require.Regexp(t, `\d of \d+ regions lead.*region \d+ on store \d`, e.doc.Report.Error)
	require.Contains(t, e.stderr, `"hint":"`)
	p.untouched(t, name)

	e = p.resolve(t, name)
	require.Zero(t, e.code, e.String())
	p.verify(t, name)
}

// It has a cluster of one region, which PD knows no leader of for seconds (pingcap/tidb#41058).
// Catalogue: G7.
func TestNoLeaderInPDForSeconds_IsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *round.Config) { c.Accounts, c.Regions = 50, 1 })
	name := p.next()
	var heal *time.Timer
	p.fault(t, fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Slow, Do: func() {
		heal = time.AfterFunc(5*time.Second, p.faults.Clear)
	}})
	p.fault(t, fault.Rule{Point: "tikv.*.RegionHeartbeat", Times: -1})
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	require.NotNil(t, heal)
	require.False(t, heal.Stop(), "it ended while PD knew no leader")
	p.verify(t, name)
}

// It plans for 30,000 regions whose peers are all alike: no store leads more than a tenth more than another
// (pingcap/tidb#39404).
// Catalogue: G8.
func TestPeersAllAlike_LeadersAreSpread(t *testing.T) {
	const regions, stores = 30_000, 3
	metas := plan.NewMetas()
	for store := cluster.StoreID(1); store <= stores; store++ {
		table := metas.Begin(store)
		for i := range regions {
			m := tikv.RegionMeta{Region: cluster.RegionID(100 + i), PeerID: 9, LastLogTerm: 6, LastIndex: 50, Version: 7}
			if i > 0 {
				m.Keys.Start = fmt.Appendf(nil, "k%06d", i)
			}
			if i < regions-1 {
				m.Keys.End = fmt.Appendf(nil, "k%06d", i+1)
			}
			require.NoError(t, table.Add(&m))
		}
	}
	made, err := plan.Make(t.Context(), metas, plan.Rules{Replicas: 3})
	require.NoError(t, err)
	summary := made.Summary()
	require.Len(t, summary.Stores, stores)
	require.Equal(t, regions, summary.Regions)
	require.LessOrEqual(t, summary.Imbalance, 10.0)
}

// It again over a whole cluster: a dry run shows the shares, and changes nothing.
// Catalogue: G8.
func TestDryRun_ShowsTheShares(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.halfway(t)
	before := p.Bed().MutatingCalls()
	e := p.resolve(t, name, "--dry-run")
	require.Zero(t, e.code, e.String())
	require.Equal(t, before, p.Bed().MutatingCalls(), "a dry run changes nothing")
	require.NotNil(t, e.doc.Plan)
	sum := 0
	for _, s := range e.doc.Plan.Stores {
		sum += s.Leaders
	}
	require.Equal(t, e.doc.Plan.Regions, sum)
	require.Equal(t, 3*sum, e.doc.Plan.Peers)
	require.Positive(t, e.doc.Plan.AllocID)
	require.Empty(t, e.doc.Plan.Lost)

	e = p.resolve(t, name)
	require.Zero(t, e.code, e.String())
	p.verify(t, name)
}
