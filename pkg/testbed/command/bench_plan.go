package command

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// planRun is one plan that was measured, from the best of a few.
type planRun struct {
	seconds, cpu float64
	peak         float64 // bytes, the metas included
	plan         *plan.Plan
}

// benchPlan measures the plan of all regions, and of four times as many.
func benchPlan(ctx context.Context, o benchOptions, add func(figure)) error {
	size := fmt.Sprintf("%d regions x 3 peers on %d stores", o.regions, o.stores)
	city := newCity(o.regions, o.stores)
	one, err := measurePlan(ctx, city)
	if err != nil {
		return err
	}
	add(figure{Name: "plan", Value: one.seconds, Unit: "s", AtMost: 2 * float64(o.regions) / 1e6, How: "best of 5 plans of " + size})
	add(figure{Name: "plan, processor time", Value: one.cpu, Unit: "s", How: "of the same plan, all threads"})
	add(figure{
		Name: "plan, peak memory beyond the keys", Value: (one.peak - city.keyBytes()) / float64(one.plan.Peers), Unit: "bytes a peer", AtMost: 400,
		How: "heap with garbage, sampled each ms, while the metas are filled in and planned",
	})
	add(figure{Name: "leaders, most over least of the stores", Value: 1 + one.plan.Summary().Imbalance/100, Unit: "times", AtMost: 1.1})
	if !o.scale {
		return nil
	}
	one.plan = nil
	four, err := measurePlan(ctx, newCity(4*o.regions, o.stores))
	if err != nil {
		return err
	}
	n := float64(o.regions)
	law := 4 * math.Log(4*n) / math.Log(n)
	add(figure{Name: "plan of four times the regions", Value: four.seconds, Unit: "s", How: fmt.Sprintf("best of 5 plans of %d regions", 4*o.regions)})
	add(figure{
		Name: "growth of processor time to four times the regions", Value: four.cpu / one.cpu, Unit: "times", AtMost: 1.5 * law,
		How: fmt.Sprintf("n log n is %.2f; a half more is for memory that the caches no longer hold", law),
	})
	return nil
}

func measurePlan(ctx context.Context, city *cityOfRegions) (planRun, error) {
	heap := watchHeap()
	metas := plan.NewMetas()
	for s := range city.stores {
		if err := ctx.Err(); err != nil {
			return planRun{}, err
		}
		table := metas.Begin(cluster.StoreID(s + 1))
		err := city.each(s, func(m *tikv.RegionMeta) error { return table.Add(m) })
		if err != nil {
			return planRun{}, err
		}
	}
	best := planRun{seconds: math.Inf(1), cpu: math.Inf(1)}
	for i := range 5 {
		start, cpu := time.Now(), cpuTime()
		made, err := plan.Make(ctx, metas, plan.Rules{Replicas: 3})
		if err != nil {
			return planRun{}, err
		}
		best.seconds = min(best.seconds, time.Since(start).Seconds())
		best.cpu = min(best.cpu, (cpuTime() - cpu).Seconds())
		if len(made.Leaders) != city.regions {
			return planRun{}, fmt.Errorf("%d of %d regions have a leader", len(made.Leaders), city.regions)
		}
		if i == 0 {
			best.peak = heap.end()
		}
		best.plan = made
		made = nil
		runtime.GC()
	}
	return best, nil
}
