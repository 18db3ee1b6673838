package resolve

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Replica is one that is made again from the others of its region: the store's peer is removed, and PD adds another one, which
// gets a snapshot.
type Replica struct {
	Region cluster.RegionID `json:"region"`
	Store  cluster.StoreID  `json:"store"`
	Keys   cluster.KeyRange `json:"keys"`
	// Peer is the one that has to go, as PD names it, and Voters how many the region had with it; 0 until that was read. A
	// peer of another id on the store is a new one.
	Peer   cluster.PeerID `json:"peer,omitempty"`
	Voters int            `json:"voters,omitempty"`
}

// The time to rebuild replicas in, at most: PD adds and removes 15 peers a minute on a store (its store limit).
const (
	rebuildBase   = time.Hour
	rebuildEach   = 30 * time.Second
	rebuildAtOnce = 32 // replicas that are under way
	rebuildPoll   = 500 * time.Millisecond
	// removeAgain is how long PD keeps an operator: within it a peer that is still listed is not asked for again.
	removeAgain = 10 * time.Second
)

// find is the replica of the region on the store; nil if it is not listed.
func find(list []Replica, region cluster.RegionID, store cluster.StoreID) *Replica {
	i := slices.IndexFunc(list, func(p Replica) bool { return p.Region == region && p.Store == store })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// ToRebuild lists the replicas that Rebuild makes again: what this run has found, or the one that it resumes. It is Corrupt if
// that one has not looked for them though the backup does not rule them out: they are not to be seen any more.
func (r *Resolver) ToRebuild(ctx context.Context) ([]Replica, error) {
	if r.cfg.NoneAhead {
		return nil, nil
	}
	if r.early == nil {
		found, err := r.foundBefore(ctx)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, nil // Thaw has ended that run's progress, which is after Rebuild
		}
		r.early = found
	}
	return r.early.Rebuild, nil
}

// Rebuild makes the replicas again whose data are ahead of the log, and waits until their regions have all their peers. Until
// it is done nobody may use the cluster: such a replica answers nothing once it is elected, and later serves what was
// written after the backup ts. Call it when the stores have left recovery mode, before Thaw; calling it again continues.
//
// Only a replica on the list is removed, one of a region at a time, and only if a quorum of the region's replicas beside
// it is healthy.
func (r *Resolver) Rebuild(ctx context.Context, s *phase.Scope) error {
	list, err := r.ToRebuild(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	limit := rebuildBase + time.Duration(len(list))*rebuildEach
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.rebuilding.Store(true)
	err = r.freeze(ctx, s) // of all but the making of replicas; a run that resumes has not frozen anything yet
	if err == nil {
		err = r.rebuildAll(ctx, s)
	}
	r.rebuilding.Store(false)
	if err != nil {
		return err
	}
	r.stats.Ahead, r.stats.Rebuilt = len(r.early.Affected), len(r.early.Affected)
	s.Note("%d replicas are rebuilt", r.stats.Rebuilt)
	return r.lowerLimits(ctx)
}

// rebuildAll polls PD until all are rebuilt. It gives up when nothing has changed for Config.Stall.
func (r *Resolver) rebuildAll(ctx context.Context, s *phase.Scope) error {
	w := &rebuild{r: r, asked: map[cluster.RegionID]time.Time{}, moved: time.Now()}
	for {
		waiting, err := w.round(ctx)
		s.Expect(int64(len(r.early.Rebuild)), "replicas")
		s.Reached(int64(len(r.early.Rebuild) - len(waiting)))
		switch {
		case err == nil && len(waiting) == 0:
			return nil
		case err != nil && !failure.Transient(err):
			return failure.Annotate(err, "rebuild replicas", r.cfg.Cluster.String())
		case time.Since(w.moved) > r.cfg.Stall || wait.For(ctx, rebuildPoll) != nil:
			return w.stuck(waiting, err)
		}
	}
}

// stuck is the error of replicas that do not come.
func (w *rebuild) stuck(waiting []string, last error) error {
	why := ""
	if last != nil {
		why = ": " + last.Error()
	}
	return failure.New(failure.Limited, "rebuild replicas", w.r.cfg.Cluster.String(), "%d of %d are not rebuilt, and nothing has changed for %s: %s%s",
		len(waiting), len(w.r.early.Rebuild), time.Since(w.moved).Round(time.Second), failure.List(waiting), why).
		WithHint("look at the logs of PD and of the named stores for these regions, then %s", w.r.cfg.resumeHint())
}

// rebuild is what was seen and asked for while replicas are rebuilt.
type rebuild struct {
	r     *Resolver
	asked map[cluster.RegionID]time.Time // when a removal was asked for last
	seen  uint64                         // sum of all configuration versions
	moved time.Time                      // when something changed last
}

// round looks at all regions of the listed replicas once, and has PD remove what is due. It returns what is not rebuilt yet,
// and why.
func (w *rebuild) round(ctx context.Context) (waiting []string, err error) {
	regions, err := w.regions(ctx)
	if err != nil {
		return w.all(), err
	}
	if err := w.identify(ctx, regions); err != nil {
		return w.all(), err
	}
	byID, seen := make(map[cluster.RegionID]*cluster.Region, len(regions)), uint64(0)
	for i := range regions {
		byID[regions[i].ID] = &regions[i]
		seen += regions[i].ConfVer
	}
	under := 0
	list := w.r.early.Rebuild
	for i := range list {
		region := byID[list[i].Region]
		why := w.left(&list[i], region)
		if why == "" {
			continue
		}
		waiting = append(waiting, "region "+list[i].Region.String()+" on store "+list[i].Store.String()+" ("+why+")")
		if under++; under > rebuildAtOnce || region == nil || !holds(region, &list[i]) {
			continue
		}
		if err := w.remove(ctx, region, &list[i]); err != nil {
			return waiting, err
		}
	}
	if seen += uint64(len(list) - len(waiting)); seen != w.seen { //nolint:gosec // a length
		w.seen, w.moved = seen, time.Now()
	}
	return waiting, nil
}

// all names the listed replicas, of which nothing is known.
func (w *rebuild) all() []string {
	out := make([]string, 0, len(w.r.early.Rebuild))
	for _, p := range w.r.early.Rebuild {
		out = append(out, "region "+p.Region.String()+" on store "+p.Store.String())
	}
	return out
}

// manyRanges is how many ranges cost more to ask for than all regions at once.
const manyRanges = 100

// regions are those that hold keys of the listed replicas, by id.
func (w *rebuild) regions(ctx context.Context) ([]cluster.Region, error) {
	if len(w.r.early.Rebuild) > manyRanges {
		return w.r.pd.Regions(ctx, cluster.KeyRange{})
	}
	var out []cluster.Region
	for _, p := range w.r.early.Rebuild {
		found, err := w.r.pd.Regions(ctx, p.Keys)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b cluster.Region) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b cluster.Region) bool { return a.ID == b.ID }), nil
}
