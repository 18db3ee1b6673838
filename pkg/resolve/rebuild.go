package resolve

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Replica is one to rebuild from the others of its region: the store's peer is removed, and PD adds another, which gets
// a snapshot.
type Replica struct {
	Region cluster.RegionID `json:"region"`
	Store  cluster.StoreID  `json:"store"`
	Keys   cluster.KeyRange `json:"keys"`
	// Peer is the id of the peer to remove, and Voters the region's number of voters with it; 0 until they were read. A
	// peer with another id on the store is a new one.
	Peer   cluster.PeerID `json:"peer,omitempty"`
	Voters int            `json:"voters,omitempty"`
}

// The maximum time to rebuild replicas: PD adds and removes 15 peers a minute per store (its store limit).
const (
	rebuildBase   = time.Hour
	rebuildEach   = 30 * time.Second
	rebuildAtOnce = 32 // replicas in progress
	rebuildPoll   = 500 * time.Millisecond
	// removeAgain is how long PD keeps an operator: before that the removal of a listed peer is not repeated.
	removeAgain = 10 * time.Second
)

// find returns the region's replica on the store; nil if it is not listed.
func find(list []Replica, region cluster.RegionID, store cluster.StoreID) *Replica {
	i := slices.IndexFunc(list, func(p Replica) bool { return p.Region == region && p.Store == store })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// rebuildPD is what a rebuild needs from PD.
type rebuildPD interface {
	pd.Members
	pd.Operators
}

// removeAll has PD remove all listed replicas, and records that none is left.
func (w *rebuild) removeAll(ctx context.Context, s *phase.Scope) error {
	if w.record.early.Removed {
		return nil
	}
	if err := w.all(ctx, s, w.remains); err != nil {
		return err
	}
	early := w.record.early
	return w.record.noteEarly(ctx, &EarlyApply{Affected: early.Affected, Rebuild: early.Rebuild, Removed: true})
}

// all calls round until all listed replicas have reached a state. It fails if nothing has changed for Config.Stall.
func (w *rebuild) all(ctx context.Context, s *phase.Scope, round func(context.Context) ([]string, error)) error {
	w.moved = time.Now()
	var known []string // what was awaited when PD last answered
	for i := range w.record.early.Rebuild {
		known = append(known, w.record.early.Rebuild[i].name("PD has not answered"))
	}
	for {
		waiting, err := round(ctx)
		if err != nil && len(waiting) == 0 {
			waiting = known
		}
		known = waiting
		n := len(w.record.early.Rebuild)
		s.Expect(int64(2*n), "removals and new replicas") // both for each
		switch {
		case err != nil:
		case w.record.early.Removed:
			s.Reached(int64(2*n - len(waiting)))
		default:
			s.Reached(int64(n - len(waiting)))
		}
		switch {
		case err == nil && len(waiting) == 0:
			return nil
		case err != nil && !failure.Transient(err):
			return failure.Annotate(err, "rebuild replicas", w.cfg.Cluster.String())
		case time.Since(w.moved) > w.cfg.Stall || wait.For(ctx, rebuildPoll) != nil:
			return w.stuck(waiting, err)
		}
	}
}

// stuck is the error for replicas that make no progress.
func (w *rebuild) stuck(waiting []string, last error) error {
	why := ""
	if last != nil {
		why = ": " + last.Error()
	}
	return failure.New(failure.Limited, "rebuild replicas", w.cfg.Cluster.String(),
		"%d of %d are not rebuilt, and nothing has changed for %s: %s%s",
		len(waiting), len(w.record.early.Rebuild), time.Since(w.moved).Round(time.Second), failure.List(waiting), why).
		WithHint("look at the logs of PD and of the named stores for these regions, then %s", w.cfg.resumeHint())
}

// rebuild tracks what was seen and requested while replicas are rebuilt.
type rebuild struct {
	cfg    *settings
	pd     rebuildPD
	record *record

	asked map[cluster.PeerID]time.Time // when a removal was last requested
	seen  uint64                       // sum of all configuration versions
	moved time.Time                    // when something last changed
}

// remains has PD remove what is due, and lists the replicas that still exist, and why.
func (w *rebuild) remains(ctx context.Context) (waiting []string, err error) {
	regions, err := w.regions(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.identify(ctx, regions); err != nil {
		return nil, err
	}
	byID, known := index(regions), sweep.NewCoverage()
	for i := range regions {
		known.Add(regions[i].Keys)
	}
	asked := map[cluster.RegionID]bool{} // one per region at a time
	for i := range w.record.early.Rebuild {
		p := &w.record.early.Rebuild[i]
		region := byID[p.Region]
		switch {
		case region == nil || !known.Contains(p.Keys):
			waiting = append(waiting, p.name("PD does not know all regions of its keys"))
			continue
		case !holds(region, p):
			continue
		}
		why := w.spare(region, p)
		waiting = append(waiting, p.name(cmp.Or(why, "PD is to remove its peer")))
		if why != "" || asked[region.ID] || len(asked) == rebuildAtOnce {
			continue
		}
		asked[region.ID] = true
		if err := w.remove(ctx, region, p); err != nil {
			return waiting, err
		}
	}
	w.note(regions, len(waiting))
	return waiting, nil
}

// missing lists the replicas whose regions lack peers.
func (w *rebuild) missing(ctx context.Context) (waiting []string, err error) {
	regions, err := w.regions(ctx)
	if err != nil {
		return nil, err
	}
	byID := index(regions)
	for i := range w.record.early.Rebuild {
		p := &w.record.early.Rebuild[i]
		if why := w.lacks(p, byID[p.Region]); why != "" {
			waiting = append(waiting, p.name(why))
		}
	}
	w.note(regions, len(waiting))
	return waiting, nil
}

// note records when something last changed.
func (w *rebuild) note(regions []cluster.Region, waiting int) {
	seen := saturate.To[uint64](len(w.record.early.Rebuild) - waiting)
	for i := range regions {
		seen += regions[i].ConfVer
	}
	if seen != w.seen {
		w.seen, w.moved = seen, time.Now()
	}
}

func index(regions []cluster.Region) map[cluster.RegionID]*cluster.Region {
	byID := make(map[cluster.RegionID]*cluster.Region, len(regions))
	for i := range regions {
		byID[regions[i].ID] = &regions[i]
	}
	return byID
}

// name returns the replica and what it waits for.
func (p *Replica) name(why string) string {
	return "region " + p.Region.String() + " on store " + p.Store.String() + " (" + why + ")"
}

// manyRanges is the number of ranges from which reading all regions at once is cheaper.
const manyRanges = 100

// regions returns the regions with keys of the listed replicas, by id.
func (w *rebuild) regions(ctx context.Context) ([]cluster.Region, error) {
	if len(w.record.early.Rebuild) > manyRanges {
		return w.pd.Regions(ctx, cluster.KeyRange{})
	}
	var out []cluster.Region
	for _, p := range w.record.early.Rebuild {
		found, err := w.pd.Regions(ctx, p.Keys)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b cluster.Region) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b cluster.Region) bool { return a.ID == b.ID }), nil
}
