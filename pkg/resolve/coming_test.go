package resolve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// While someone else waits for the stores, collect reads those that come and judges none: not one that is late, refuses or
// is foreign. After that it does.
func TestCollect_WhileStoresAreAwaited_ReadsAndJudgesNone(t *testing.T) {
	t.Parallel()
	const awaited = 5 * time.Minute // Stall is one
	refuses := failure.New(failure.Unready, "read region metas", "", "unimplemented")
	for name, row := range map[string]struct {
		list    func(coming bool) []pd.Store
		refused bool // by store 2, while it is awaited
		want    string
	}{
		"one is late":                 {list: func(coming bool) []pd.Store { return upStores(1, 1, 2, 3)[:2+map[bool]int{false: 1}[coming]] }},
		"one refuses at first":        {list: func(bool) []pd.Store { return upStores(1, 1, 2, 3) }, refused: true},
		"a foreign one was there":     {list: func(coming bool) []pd.Store { return upStores(1, 1, 2, 3, 4)[:3+map[bool]int{true: 1}[coming]] }, refused: true},
		"a foreign one stays":         {list: func(bool) []pd.Store { return upStores(1, 1, 2, 3, 4) }, refused: true, want: "store 4 is not in the backup"},
		"one does not come after all": {list: func(bool) []pd.Store { return upStores(1, 1, 2) }, want: "store 3 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, begin := newRack(), time.Now()
				coming := func() bool { return time.Since(begin) < awaited }
				k.list = func(int) ([]pd.Store, error) { return row.list(coming()), nil }
				k.report = func(address string, _ int, each func(tikv.RegionMeta) error) error {
					if row.refused && address == "store-2" && coming() {
						return refuses
					}
					return each(peer(1, "", ""))
				}
				made, err := k.plan(t, func(c *resolve.Config) { c.Coming = coming })
				require.GreaterOrEqual(t, time.Since(begin), awaited)
				require.Equal(t, 1, k.streams["store-1"], "it was read when it came")
				if row.want != "" {
					require.ErrorContains(t, err, row.want)
					return
				}
				require.NoError(t, err)
				require.Equal(t, 3, made.Peers)
			})
		})
	}
}
