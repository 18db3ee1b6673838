package command

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/testbed/flashstore"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The size of the flashbacks that are measured. Both sides share this machine: 4,000 calls per second are what two
// cores do without being what is measured.
const (
	flashRegions = 50_000
	flashStores  = 10
	flashSlots   = 2
	flashCost    = 5 * time.Millisecond
	slowTimes    = 10
)

// flashLab is one cluster to flash back.
type flashLab struct {
	regions int
	stores  int
	cost    func(store int) time.Duration
	// during runs beside the step flashback.
	during func(ctx context.Context, stores []*flashstore.Store) error
}

// flashDone is what came of it.
type flashDone struct {
	prepare, flashback float64 // seconds of the steps
	last               []float64
	prepares, flashes  []int64
	most               int64 // calls at a store at once
	busy               time.Duration
	stats              resolve.Stats
}

// benchFlashback measures the steps prepare and flashback of whole resolves over gRPC.
func benchFlashback(ctx context.Context, o benchOptions, add func(figure)) error {
	regions := min(flashRegions, o.regions)
	even := func(int) time.Duration { return flashCost }
	if err := benchEvenStores(ctx, flashLab{regions: regions, stores: flashStores, cost: even}, add); err != nil {
		return err
	}
	if err := benchSlowStore(ctx, max(regions/10, 1000), add); err != nil {
		return err
	}
	return benchRestart(ctx, flashLab{regions: max(regions/5, 1000), stores: flashStores, cost: even}, add)
}

// floor is the least time that a store's slots need for its share of one sweep.
func floor(regions, stores int, cost time.Duration) float64 {
	return float64(regions) / float64(stores) * cost.Seconds() / flashSlots
}

func benchEvenStores(ctx context.Context, lab flashLab, add func(figure)) error {
	done, err := lab.run(ctx)
	if err != nil {
		return err
	}
	least := floor(lab.regions, lab.stores, flashCost)
	how := fmt.Sprintf("%d regions, %d stores that work on %d calls at once for %s each: %.2f s at least", lab.regions, lab.stores, flashSlots, flashCost, least)
	add(figure{Name: "prepare, of the stores' floor", Value: done.prepare / least, Unit: "times", AtMost: 1.5, How: how})
	add(figure{Name: "flashback, of the stores' floor", Value: done.flashback / least, Unit: "times", AtMost: 1.5, How: how})
	add(figure{Name: "flashback", Value: float64(lab.regions) / done.flashback, Unit: "regions/s", How: how})
	slow := done.busy.Seconds() / (2 * float64(lab.regions) * flashCost.Seconds())
	add(figure{Name: "a call's time at the store, of what it should take", Value: slow, Unit: "times", How: "above 1.1 the machine is loaded, and the figures above are too"})
	add(figure{Name: "calls at a store at once, at most", Value: float64(done.most), Unit: "calls", How: how})
	return nil
}

// benchSlowStore makes the first store ten times slower than the others.
func benchSlowStore(ctx context.Context, regions int, add func(figure)) error {
	lab := flashLab{regions: regions, stores: flashStores, cost: func(store int) time.Duration {
		if store == 0 {
			return slowTimes * flashCost
		}
		return flashCost
	}}
	done, err := lab.run(ctx)
	if err != nil {
		return err
	}
	rest := 0.0
	for _, last := range done.last[1:] {
		rest = max(rest, last)
	}
	least := floor(regions, lab.stores, flashCost)
	how := fmt.Sprintf("%d regions, one of %d stores takes %s a call", regions, lab.stores, slowTimes*flashCost)
	add(figure{Name: "flashback beside a slow store, of the others' floor", Value: rest / least, Unit: "times", AtMost: 1.5, How: how})
	add(figure{Name: "flashback of the slow store, of its floor", Value: done.last[0] / (slowTimes * least), Unit: "times", AtMost: 1.5, How: how})
	return nil
}

// benchRestart restarts the first store when half of its regions are flashed back.
func benchRestart(ctx context.Context, lab flashLab, add func(figure)) error {
	share := int64(lab.regions / lab.stores)
	lab.during = func(ctx context.Context, stores []*flashstore.Store) error {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for stores[0].Counts().Flashbacks.Load() < share/2 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return stores[0].Restart(ctx)
	}
	done, err := lab.run(ctx)
	if err != nil {
		return err
	}
	again := -2 * int64(lab.regions)
	for i := range done.flashes {
		again += done.flashes[i] + done.prepares[i]
	}
	least := floor(lab.regions, lab.stores, flashCost)
	how := fmt.Sprintf("%d regions, one of %d stores restarts half-way and loses its leaders", lab.regions, lab.stores)
	add(figure{Name: "calls carried out twice after a restart", Value: float64(again), Unit: "calls", AtMost: float64(share), How: how})
	add(figure{Name: "flashback with a restart, of the stores' floor", Value: done.flashback / least, Unit: "times", AtMost: 2.5, How: how + "; its own work again is once the floor"})
	add(figure{Name: "calls sent again", Value: float64(done.stats.Retries), Unit: "calls", How: how})
	return nil
}

// run resolves a new cluster, checks that every region is done and open, and prints how long it took.
func (lab flashLab) run(ctx context.Context) (*flashDone, error) {
	server, err := pdtest.New(pdtest.Config{CoordinatorDelay: time.Millisecond})
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.Close()
	client, err := pd.Open(ctx, pd.Config{Addresses: server.URLs()})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	stores, err := lab.start(ctx, server)
	for _, s := range stores {
		defer s.Stop()
	}
	if err != nil {
		return nil, err
	}
	if err := client.MarkRecovering(ctx); err != nil {
		return nil, err
	}
	return lab.resolve(ctx, client, stores)
}

// start makes the stores, each with peers of the regions in turn.
func (lab flashLab) start(ctx context.Context, server *pdtest.Server) ([]*flashstore.Store, error) {
	held := make([][]*metapb.Region, lab.stores)
	var first *metapb.Region
	for i := range lab.regions {
		region := lab.region(i)
		if i == 0 {
			first = region
		}
		for _, p := range region.Peers {
			held[p.StoreId-1] = append(held[p.StoreId-1], region)
		}
	}
	whole := &metapb.Region{Id: 1_000_000_000, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}, Peers: first.Peers}
	_, err := server.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Header: &pdpb.RequestHeader{ClusterId: server.ClusterID()}, Store: &metapb.Store{Id: 1, Address: "127.0.0.1:1"}, Region: whole,
	})
	if err != nil {
		return nil, err
	}
	var stores []*flashstore.Store
	for i := range lab.stores {
		s, err := flashstore.Start(ctx, flashstore.Config{
			ID: uint64(i + 1), PD: server, Regions: held[i], Slots: flashSlots, Cost: lab.cost(i),
		})
		if err != nil {
			return stores, err
		}
		stores = append(stores, s)
	}
	return stores, nil
}

// region is the i-th of the key space, with peers on three stores.
func (lab flashLab) region(i int) *metapb.Region {
	bound := func(i int) []byte {
		if i == 0 || i == lab.regions {
			return nil
		}
		return codec.EncodeBytes(nil, fmt.Appendf(nil, "t%012d_r%08d", i/100, i))
	}
	id := uint64(100_000 + 10*i)
	region := &metapb.Region{
		Id: id, StartKey: bound(i), EndKey: bound(i + 1), RegionEpoch: &metapb.RegionEpoch{ConfVer: 5, Version: 30},
	}
	for n := range 3 {
		region.Peers = append(region.Peers, &metapb.Peer{
			Id: id + 1 + uint64(n), StoreId: uint64((i+n)%lab.stores + 1),
		})
	}
	return region
}

func (lab flashLab) resolve(ctx context.Context, p *pd.Client, stores []*flashstore.Store) (*flashDone, error) {
	client := tikv.Open(tikv.Config{})
	defer client.Close()
	ts, err := p.Now(ctx)
	if err != nil {
		return nil, err
	}
	cfg := resolve.Config{Cluster: cluster.Name{Namespace: "bench", Name: "bench"}, Run: "bench", BackupTS: ts, MaxTS: ts, NoneAhead: true}
	for i := range stores {
		cfg.Stores = append(cfg.Stores, cluster.StoreID(i+1))
	}
	progress := resolve.NewProgressFile(objstoretest.NewMemory(nil), cfg.Cluster, "bench")
	cfg.Progress = progress
	r := resolve.New(client, nil)
	r.Target(cfg, p)
	steps := r.Steps("resolve data", resolve.StepOptions{})
	var begun atomic.Int64
	beside := make(chan error, 1)
	for i := range steps {
		if steps[i].Name != "flashback" {
			continue
		}
		do := steps[i].Do
		steps[i].Do = func(ctx context.Context, s *phase.Scope) error {
			begun.Store(time.Now().UnixNano())
			go func() {
				if lab.during == nil {
					beside <- nil
					return
				}
				beside <- lab.during(ctx, stores)
			}()
			return do(ctx, s)
		}
	}
	engine := phase.New(phase.Config{Run: cfg.Run, Journal: journal.NewStoreJournal(objstoretest.NewMemory(nil), "bench/")})
	if err := engine.Run(ctx, steps); err != nil {
		return nil, err
	}
	if err := <-beside; err != nil {
		return nil, err
	}
	done := &flashDone{stats: r.Stats()}
	for _, step := range engine.Timings()[0].Steps {
		switch step.Name {
		case "prepare":
			done.prepare = step.Seconds
		case "flashback":
			done.flashback = step.Seconds
		}
	}
	if err := done.count(ctx, progress, stores, begun.Load()); err != nil {
		return nil, err
	}
	return done, r.Thaw(ctx, nil)
}

// count reads what the stores did and proves that nothing is left to do.
func (d *flashDone) count(ctx context.Context, progress resolve.ProgressStore, stores []*flashstore.Store, begun int64) error {
	noted, _, err := progress.Load(ctx)
	if err != nil {
		return err
	}
	undone := 0
	for _, s := range stores {
		c := s.Counts()
		undone += s.Undone(uint64(noted.Stamps.Start), uint64(noted.Stamps.Commit))
		d.prepares = append(d.prepares, c.Prepares.Load())
		d.flashes = append(d.flashes, c.Flashbacks.Load())
		d.last = append(d.last, time.Duration(c.Last.Load()-begun).Seconds())
		d.most = max(d.most, c.Most.Load())
		d.busy += time.Duration(c.Busy.Load())
	}
	if undone > 0 || len(noted.Flashed) != 1 {
		return fmt.Errorf("%d regions are not flashed back, and %d ranges are noted as done instead of the one key space", undone, len(noted.Flashed))
	}
	return nil
}
