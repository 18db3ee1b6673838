package hold

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
)

// servicePrefix is the prefix of all our safe points and callers.
const servicePrefix = "tisnap-"

// Status is the part of a hold that PD shows. It lacks the leases and suspensions on the stores, which cannot be read
// without taking them over.
type Status struct {
	Schedulers []PausedScheduler `json:"schedulers"`
	Limits     []Limit           `json:"limits"`
	SafePoints []SafePoint       `json:"safePoints"`
	// EarlyApply are the stores on which, by their journals, runs turned early apply off and have not restored it, and
	// those that report it off. A store restarted since has its configured limit again.
	EarlyApply []EarlyApply `json:"earlyApply,omitempty"`
}

// EarlyApply is a store on which early apply was turned off. It does not expire by itself.
type EarlyApply struct {
	Store cluster.StoreID `json:"store"`
	Limit uint64          `json:"limit"` // the previous limit; 0 if no run is known to have changed it
	// By is the run that turned it off; empty if unknown: it may be configured so.
	By cluster.RunID `json:"by"`
	// Holder is where that run is, if its id names it.
	Holder *Holder `json:"holder,omitempty"`
	// Since is when that run turned it off, by its own clock; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Now is the limit that the store reports; nil if it was not asked or did not answer.
	Now *uint64 `json:"now,omitempty"`
}

// PausedScheduler is a paused scheduler. PD does not record who paused it, but journals of runs may.
type PausedScheduler struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
	// By is the run that paused it; empty if unknown.
	By cluster.RunID `json:"by,omitempty"`
}

// Limit is a temporarily overridden config item.
type Limit struct {
	Item  string `json:"item"`
	Value string `json:"value"`
	// Ours reports whether a hold sets this item to this value, as br does for some.
	Ours bool `json:"ours"`
	// Until is when the override expires; zero if PD does not report it.
	Until time.Time `json:"until,omitzero"`
	// By is the run that overrode it; empty if unknown.
	By cluster.RunID `json:"by,omitempty"`
}

// SafePoint is a GC safe point of a tisnap run.
type SafePoint struct {
	Run   cluster.RunID `json:"run"`
	TS    cluster.TS    `json:"ts"`
	Until time.Time     `json:"until"`
	// Holder is who has the hold, if the run's id names it.
	Holder *Holder `json:"holder,omitempty"`
}

// Held reports whether anything is paused, or a run left early apply off.
func (s *Status) Held() bool {
	return len(s.Schedulers)+len(s.Limits)+len(s.SafePoints) > 0 ||
		slices.ContainsFunc(s.EarlyApply, func(e EarlyApply) bool { return e.By != "" })
}

// Describe reads what is paused in PD. It changes nothing.
func Describe(ctx context.Context, p PD) (*Status, error) {
	schedulers, err := p.Schedulers(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list schedulers", "")
	}
	overrides, err := p.Overrides(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read ttl config", "")
	}
	services, _, err := p.SafePoints(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list safe points", "")
	}
	s := &Status{Schedulers: []PausedScheduler{}, Limits: []Limit{}, SafePoints: []SafePoint{}}
	for _, sch := range schedulers {
		if sch.Paused {
			s.Schedulers = append(s.Schedulers, PausedScheduler{Name: sch.Name, Until: sch.ResumeAt})
		}
	}
	for _, o := range overrides {
		s.Limits = append(s.Limits, Limit{Item: o.Item, Value: o.Value, Ours: ours(o.Item, o.Value), Until: o.Until})
	}
	slices.SortFunc(s.Limits, func(a, b Limit) int { return strings.Compare(a.Item, b.Item) })
	for _, point := range services {
		if run, ok := runOf(point); ok {
			held := SafePoint{Run: run, TS: point.TS, Until: point.ExpiredAt}
			if _, holder, known := SplitHolder(run); known {
				held.Holder = &holder
			}
			s.SafePoints = append(s.SafePoints, held)
		}
	}
	return s, nil
}

// Attribute records that, by its journal, a run paused these schedulers and overrode these limits.
func (s *Status) Attribute(run cluster.RunID, schedulers, limits []string) {
	for i := range s.Schedulers {
		if slices.Contains(schedulers, s.Schedulers[i].Name) {
			s.Schedulers[i].By = run
		}
	}
	for i := range s.Limits {
		if s.Limits[i].Ours && slices.Contains(limits, s.Limits[i].Item) {
			s.Limits[i].By = run
		}
	}
}

func runOf(p pd.SafePoint) (cluster.RunID, bool) {
	run, ok := strings.CutPrefix(p.Service, servicePrefix)
	return cluster.RunID(run), ok
}
