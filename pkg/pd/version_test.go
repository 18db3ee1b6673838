package pd_test

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Each store's resolved ts is known on every version, so that the one that lags can be named.
func TestResolvedTS_OnEachVersion_NamesTheStores(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"7.5.0", "8.1.0", "8.5.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			plan := &fault.Plan{}
			s := start(t, pdtest.Config{Version: version, Faults: plan, Configs: map[string]any{"schedule.leader-schedule-limit": 0}})
			bootstrap(t, s)
			for i := range 3 {
				r := region(i, 3)
				_, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{Region: r, Leader: r.GetPeers()[i], Term: 6})
				require.NoError(t, err)
			}
			for store := uint64(1); store <= 2; store++ {
				_, err := s.ReportMinResolvedTS(t.Context(), &pdpb.ReportMinResolvedTsRequest{StoreId: store, MinResolvedTs: 100 + store})
				require.NoError(t, err)
			}
			c := open(t, s.URLs()...)
			got, err := c.ResolvedTS(t.Context())
			require.NoError(t, err)
			require.Equal(t, map[cluster.StoreID]cluster.TS{1: 101, 2: 102, 3: 0}, got.Stores)

			require.NoError(t, plan.Add(fault.Rule{Point: "pd.MinResolvedTS", Nth: 2, Code: "503"}))
			for range 2 { // the second call is one of a store where each is asked
				if _, err = c.ResolvedTS(t.Context()); err != nil {
					break
				}
			}
			require.Equal(t, failure.Limited, failure.KindOf(err), "no failed question is taken for an answer")
		})
	}
}
