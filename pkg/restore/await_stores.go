package restore

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// startTiKV lets the stores start on their volumes.
func (r *run) startTiKV(ctx context.Context, _ *phase.Scope) error {
	r.arrival.begin()
	return r.target.startTiKV(ctx, r.restored())
}

// startTiKV lets the stores start on their volumes. From then on pods may use these, even if it fails.
func (t *target) startTiKV(ctx context.Context, volumes []kube.RestoredVolume) error {
	t.started = true
	return t.kube.StartTiKV(ctx, t.opts.Target, volumes...)
}

// adoptStart notes that an earlier process let the stores start.
func (t *target) adoptStart(context.Context, *phase.Scope) error {
	t.started = true
	return nil
}

// allStores returns the backup's stores and those of the cluster's parts in other Kubernetes clusters.
func (r *run) allStores() []cluster.StoreID {
	var all []cluster.StoreID
	for _, st := range r.backup.Source.Stores {
		all = append(all, st.ID)
	}
	return append(all, r.backup.elsewhere...)
}

// awaitStores waits until PD lists exactly the backup's stores, and all are up except those to do without. A store that
// answers ReadRegionMeta is up: PD shows that only after its first heartbeat, 10 s later.
func (r *run) awaitStores(ctx context.Context, s *phase.Scope) error {
	all := r.allStores()
	ids := slices.DeleteFunc(slices.Clone(all),
		func(id cluster.StoreID) bool { return slices.Contains(r.opts.TolerateStores, id) })
	seen := map[cluster.StoreID]bool{}
	s.Expect(int64(len(ids)), "stores")
	var came map[cluster.StoreID]time.Time
	watch, first := crashWatch{r: r, asked: time.Now()}, firstRegion{r: r, asked: time.Now()}
	err := r.target.poll(ctx, s, "wait for stores", func(ctx context.Context) (bool, error) {
		up, at, err := r.pd.upStores(ctx)
		if failure.Is(err, failure.Unready) { // PD is not bootstrapped: no store is up yet
			err, up = nil, map[cluster.StoreID]time.Time{}
		}
		if err != nil {
			return false, err
		}
		for _, id := range r.opts.TolerateStores {
			delete(up, id)
		}
		if err := r.checkForeign(ids, up); err != nil {
			return false, err
		}
		if err := checkPods(r.opts.Target, r.pods(), at); err != nil {
			return false, err
		}
		came = up
		r.arrival.noteUp(up, seen)
		s.Reached(int64(len(up)))
		if len(up) == len(ids) {
			return true, nil
		}
		if err := watch.check(ctx); err != nil {
			return false, err
		}
		return false, r.missing(ids, up, first.reason(ctx, s))
	})
	if err != nil {
		return r.hintWithout(ctx, err, ids, came)
	}
	r.arrival.complete(ids, r.loadMarks(ctx, s))
	return nil
}

// resolverOptions skip what an earlier run has resolved. The target is known right before the first store is read, as
// soon as one may come up; the marks once all stores are there, whose versions decide about them.
func (r *run) resolverOptions() resolve.StepOptions {
	return resolve.StepOptions{
		Done:   func() bool { return r.data.resolved },
		Target: func() (resolve.Config, resolve.PD) { return r.resolverConfig(), r.pd.PD },
		Marks:  func() *marks.Set { return r.arrival.marks },
	}
}

// asStoresCome reads each store as soon as it answers, while others still start. The plan needs all of them.
func (r *run) asStoresCome(after string) resolve.StepOptions {
	o := r.resolverOptions()
	o.CollectAfter, o.PlanAfter = []string{after}, []string{journal.StepFindAhead, stepCheckTasks}
	return o
}

// resolverConfig is what the resolver resolves.
func (r *run) resolverConfig() resolve.Config {
	return resolve.Config{
		Cluster: r.opts.Target, Run: r.opts.Run, Backup: r.opts.Backup, BackupTS: r.backup.BackupTS,
		Stores: r.allStores(), TolerateStores: r.opts.TolerateStores, Kept: r.target.existing || r.keepsOnFailure(),
		AllocID: r.backup.AllocID, Replicas: r.backup.Replicas, Stall: min(stall, r.opts.Timeout),
		WaitApply: r.opts.WaitApply, MaxTS: r.backup.MaxTS, Progress: r.target.progress(), Fence: r.runner.Fence(),
		Times:    r.arrival.times,
		FlashAll: r.opts.Flashback == FlashbackAll, CheckUnchanged: r.opts.CheckUnchanged,
		NoneAhead: r.backup.EarlyApplyRuledOut(), Rebuilds: !r.backup.multiCluster,
		Coming: func() bool { return !r.arrival.up.Load() },
	}
}

// stall is how long nothing may change while data is resolved, or --timeout if that is shorter.
const stall = 5 * time.Minute

// checkForeign refuses a store that is not in the backup: an empty one has joined, and PD might give it peers before
// the regions are resolved.
func (r *run) checkForeign(ids []cluster.StoreID, up map[cluster.StoreID]time.Time) error {
	for id := range up {
		if !slices.Contains(ids, id) {
			return failure.New(failure.Conflict, "wait for stores", r.opts.Target.String(),
				"store %s is up, and the backup has no such store: an empty one has joined", id).
				WithHint("keep the number of TiKV stores of %s at %d until the restore is over", r.opts.Target,
					len(r.allStores()))
		}
	}
	return nil
}

// checkPods refuses a store that is not in the pod that has its volumes: PD, which is new, may give an empty store that
// joins the id of a store that has not come yet. An address that names no pod is not checked.
func checkPods(target cluster.Name, pods, at map[cluster.StoreID]string) error {
	for id, address := range at {
		host, _, _ := strings.Cut(address, ":")
		pod, domain, _ := strings.Cut(host, ".")
		_, err := netip.ParseAddr(host)
		if want := pods[id]; want == "" || want == pod || domain == "" || err == nil {
			continue
		}
		return failure.New(failure.Conflict, "wait for stores", target.String(),
			"store %s is in pod %s, and its volumes are those of pod %s: an empty store has joined", id, pod, pods[id]).
			WithHint("keep the number of TiKV stores of %s as it is until the restore is over, and restore again",
				target)
	}
	return nil
}

// missing names the missing stores, and why if known.
func (r *run) missing(ids []cluster.StoreID, up map[cluster.StoreID]time.Time, why string) error {
	var gone []string
	for _, id := range ids {
		if _, ok := up[id]; !ok {
			gone = append(gone, id.String())
		}
	}
	if len(gone) == 0 {
		return nil
	}
	text := "stores " + strings.Join(gone, ", ") + " are not up"
	if why != "" {
		text += ": " + why
	}
	return failure.New(failure.Unready, "wait for stores", r.opts.Target.String(), "%s", text)
}
