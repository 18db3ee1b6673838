package plan_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// equalRegions are n regions with three equal peers each, on the stores that choose returns.
func equalRegions(n, stores int, choose func(region int) [3]int) peers {
	metas := peers{}
	for s := range stores {
		metas[cluster.StoreID(s+1)] = nil
	}
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte("t"), uint32(i)) }
	for i := range n {
		m := tikv.RegionMeta{Region: cluster.RegionID(i + 1), PeerID: cluster.PeerID(n + i), LastLogTerm: 6, LastIndex: 10, Version: 3, Keys: cluster.KeyRange{Start: key(i), End: key(i + 1)}}
		if i == 0 {
			m.Keys.Start = nil
		}
		if i == n-1 {
			m.Keys.End = nil
		}
		for _, s := range choose(i) {
			id := cluster.StoreID(s + 1)
			metas[id] = append(metas[id], m)
		}
	}
	return metas
}

func randomStores(seed uint64, stores int) func(int) [3]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(int) [3]int {
		p := rng.Perm(stores)
		return [3]int{p[0], p[1], p[2]}
	}
}

func spread(p *plan.Plan) (low, high int) {
	low = math.MaxInt
	for _, commands := range p.Commands {
		low, high = min(low, len(commands)), max(high, len(commands))
	}
	return low, high
}

func TestMakePlan_EqualRegionsOn20Stores_LeadersAreEven(t *testing.T) {
	t.Parallel()
	cases := map[string]func(int) [3]int{
		"random":   randomStores(7, 20),
		"in turn":  func(i int) [3]int { return [3]int{i % 20, (i + 1) % 20, (i + 2) % 20} },
		"in bulks": func(i int) [3]int { s := i / 1500; return [3]int{s, (s + 1) % 20, (s + 2) % 20} },
		// The greedy choice alone gives the first stores all of the shared ones.
		"own last": func(i int) [3]int {
			if i < 15000 {
				return [3]int{i % 10, 10 + i%5, 15 + i%5}
			}
			return [3]int{i % 10, (i + 1) % 10, (i + 2) % 10}
		},
	}
	for name, choose := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := makePlan(t, equalRegions(30_000, 20, choose), 3)
			require.NoError(t, err)
			low, high := spread(plan)
			require.LessOrEqual(t, float64(high), 1.1*float64(low), "busiest %d, idlest %d", high, low)
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	metas := equalRegions(1_000_000, 20, randomStores(1, 20))
	for store := range metas {
		for i := range metas[store] {
			metas[store][i].LastIndex += uint64(i % 3) // lags, so that not all are ties
		}
	}
	compact := metas.metas(b)
	b.ReportAllocs()
	for b.Loop() {
		plan, err := plan.Make(b.Context(), compact, plan.Rules{Replicas: 3})
		if err != nil {
			b.Fatal(err)
		}
		if low, high := spread(plan); float64(high) > 1.1*float64(low) {
			b.Fatalf("busiest %d, idlest %d", high, low)
		}
	}
}

// BenchmarkMetas fills 300,000 peers of 20 stores into the compact form, without a network.
func BenchmarkMetas(b *testing.B) {
	all := equalRegions(100_000, 20, randomStores(1, 20))
	b.ReportAllocs()
	for b.Loop() {
		require.Equal(b, 300_000, all.metas(b).Len())
	}
	b.ReportMetric(300_000*float64(b.N)/b.Elapsed().Seconds(), "metas/s")
}
