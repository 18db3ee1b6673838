package resolve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// missingLeader is a region whose planned leader PD does not know yet.
type missingLeader struct {
	planned *plan.Leader
	now     cluster.StoreID // that leads by PD; 0 if none does
	witness bool            // that leads by PD has no data
}

// leaderWait is what was done for regions that do not get their leaders.
type leaderWait struct {
	*leading

	best     int       // regions that lead
	moved    time.Time // when the last of them did so
	asked    time.Time // when stores were asked last
	repeated bool      // the planned leaders were asked for a second time
	tried    map[cluster.RegionID][]cluster.StoreID
	warned   bool
	began    time.Time
	whole    map[cluster.StoreID]bool // the stores that lead all that they are to lead
	polled   time.Time                // when PD's regions were asked for last
	read     time.Time                // when they were read last
}

func newLeaderWait(g *leading) *leaderWait {
	now := time.Now()
	return &leaderWait{
		leading: g, best: -1, moved: now, asked: now, began: now, polled: now, read: now,
		tried: map[cluster.RegionID][]cluster.StoreID{}, whole: map[cluster.StoreID]bool{},
	}
}

// poll reads all regions, and which of the planned ones do not lead yet.
func (w *leaderWait) poll(ctx context.Context, s *phase.Scope) ([]cluster.Region, []missingLeader, error) {
	regions, n, missing, err := w.led(ctx)
	now := time.Now()
	passed := now.Sub(w.polled)
	w.polled = now
	if err != nil {
		w.cfg.log.Warn("regions cannot be read yet", zap.Error(err))
		w.moved = w.moved.Add(passed) // whether anything has moved is not known
		return nil, nil, err
	}
	w.read = now
	if n > w.best {
		w.best, w.moved = n, now
		s.Reached(int64(n))
	}
	w.note(missing)
	return regions, missing, nil
}

// note takes the time of each store that leads now all that it is to lead, and did not before.
func (w *leaderWait) note(missing []missingLeader) {
	behind := storesOf(missing)
	for _, id := range w.cfg.Stores {
		leads := !slices.Contains(behind, id)
		if leads && !w.whole[id] {
			w.cfg.Times.Note(id, "recover", time.Since(w.began))
		}
		w.whole[id] = leads
	}
}

// ask does what is due for the regions that do not lead. It is false when nothing is left to try.
func (w *leaderWait) ask(s *phase.Scope, missing []missingLeader) bool {
	third := w.cfg.Stall / 3
	if time.Since(w.moved) <= third || time.Since(w.asked) <= third {
		return true
	}
	w.asked = time.Now()
	if !w.repeated {
		w.repeated = true
		w.calls.askAgain(storesOf(missing))
		return true
	}
	to := map[cluster.RegionID]cluster.StoreID{}
	for _, m := range missing {
		if next := w.next(m); next != 0 {
			w.tried[m.planned.Region] = append(w.tried[m.planned.Region], m.planned.Store)
			to[m.planned.Region] = next
		}
	}
	if len(to) == 0 {
		return time.Since(w.moved) <= w.cfg.Stall
	}
	if !w.warned {
		w.warned = true
		s.Warn("%d regions get no leader where it was planned, such as %s; their other peers are tried", len(to),
			failure.List(w.texts(missing[:1])))
	}
	w.cfg.log.Info("regions get no leader where it was planned; trying other peers", zap.Int("regions", len(to)))
	w.move(to)
	return true
}

// next is the store to try for the region: where PD has a leader, or the one with the best log that was not tried.
func (w *leaderWait) next(m missingLeader) cluster.StoreID {
	others := slices.DeleteFunc(w.plan.Others(m.planned), func(id cluster.StoreID) bool {
		return slices.Contains(w.tried[m.planned.Region], id)
	})
	switch {
	case slices.Contains(others, m.now):
		return m.now
	case len(others) > 0:
		return others[0]
	default:
		return 0
	}
}

// move asks for other leaders than the planned ones.
func (g *leading) move(to map[cluster.RegionID]cluster.StoreID) {
	g.verdicts.moved(to)
	g.calls.move(to)
}

// texts says of the first regions where a leader was tried, and why there may be none. There are as many texts as
// regions.
func (w *leaderWait) texts(missing []missingLeader) []string {
	out := make([]string, len(missing))
	for i, m := range missing[:min(len(missing), failure.MaxListed)] {
		l := m.planned
		why := "PD knows no leader"
		if m.now != 0 {
			why = fmt.Sprintf("by PD store %s leads", m.now)
		}
		for _, store := range w.tried[l.Region] {
			why += fmt.Sprintf(", store %s was tried", store)
		}
		why += fmt.Sprintf(", %d peers, the best log ends at term %d, index %d", l.Replicas, l.Term, l.Index)
		if slices.Contains(w.plan.Crowded, l.Region) {
			why += ", one peer is a learner, a witness, or left of a moved replica"
		}
		out[i] = fmt.Sprintf("region %s on store %s (%s)", l.Region, l.Store, why)
	}
	return out
}

func storesOf(missing []missingLeader) []cluster.StoreID {
	var stores []cluster.StoreID
	for _, m := range missing {
		stores = append(stores, m.planned.Store)
	}
	slices.Sort(stores)
	return slices.Compact(stores)
}
