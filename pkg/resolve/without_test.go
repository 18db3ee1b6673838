package resolve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// While stores are awaited, what was read of those that came decides whether the cluster can do without the rest.
func TestWithout_WhileStoresAreAwaited_ReportsWhatTheOthersProve(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		come           []cluster.StoreID
		hangs          string // a store that PD lists, and whose stream does not end
		late           []cluster.StoreID
		known, refused bool
	}{
		"one of three is missing":             {come: []cluster.StoreID{1, 2}, late: []cluster.StoreID{3}, known: true},
		"two of three are missing":            {come: []cluster.StoreID{1}, late: []cluster.StoreID{2, 3}, known: true, refused: true},
		"one is missing, another is not read": {come: []cluster.StoreID{1}, late: []cluster.StoreID{3}},
		"one is not read to its end":          {come: []cluster.StoreID{1, 2, 3}, hangs: "store-3", late: []cluster.StoreID{3}, known: true},
		"none is missing":                     {come: []cluster.StoreID{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				k.list = func(int) ([]pd.Store, error) { return upStores(1, row.come...), nil }
				k.report = func(_ string, _ int, each func(tikv.RegionMeta) error) error { return each(peer(1, "", "")) }
				k.hang[row.hangs] = true
				r := resolve.New(k, nil)
				require.Equal(t, resolve.Verdict{}, r.Without(t.Context(), row.late), "nothing is read yet")
				r.Target(resolve.Config{
					Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "run", BackupTS: 1, Stores: []cluster.StoreID{1, 2, 3},
					Coming: func() bool { return true },
				}, k)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				over := make(chan struct{})
				go func() {
					defer close(over)
					_ = phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(ctx, r.PlanSteps("data", resolve.StepOptions{})[:1])
				}()
				<-time.After(time.Minute) // by the bubble's clock
				if len(row.late) > 0 {
					v := r.Without(t.Context(), row.late)
					require.Equal(t, row.known, v.Known)
					require.Equal(t, row.refused, v.Refused != nil, "%v", v.Refused)
				}
				stop()
				<-over
			})
		})
	}
}
