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
	now     cluster.StoreID // the leader by PD; 0 if none
	witness bool            // PD's leader is a witness, without data
}

// leaderWait tracks what was tried for regions without their leaders.
type leaderWait struct {
	*leading

	best     int       // regions that lead
	moved    time.Time // when that last grew
	asked    time.Time // when stores were last asked
	repeated bool      // the planned leaders were asked for a second time
	tried    map[cluster.RegionID][]cluster.StoreID
	warned   bool
	began    time.Time
	whole    map[cluster.StoreID]bool // the stores that lead all their planned regions
	polled   time.Time                // when PD's regions were last requested
	read     time.Time                // when they were last read
}

func newLeaderWait(g *leading) *leaderWait {
	now := time.Now()
	return &leaderWait{
		leading: g, best: -1, moved: now, asked: now, began: now, polled: now, read: now,
		tried: map[cluster.RegionID][]cluster.StoreID{}, whole: map[cluster.StoreID]bool{},
	}
}

// poll reads all regions, and finds the planned ones that do not lead yet.
func (w *leaderWait) poll(ctx context.Context, s *phase.Scope) ([]cluster.Region, []missingLeader, error) {
	regions, n, missing, err := w.led(ctx)
	now := time.Now()
	passed := now.Sub(w.polled)
	w.polled = now
	if err != nil {
		w.cfg.log.Warn("regions cannot be read yet", zap.Error(err))
		w.moved = w.moved.Add(passed) // unknown whether anything changed
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

// note records the time of each store that now leads all its planned regions and did not before.
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

// ask does what is due for the regions that do not lead. It returns false when nothing is left to try.
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

// next returns the store to try for the region: PD's leader, or the untried one with the best log.
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

// move requests other leaders than the planned ones.
func (g *leading) move(to map[cluster.RegionID]cluster.StoreID) {
	g.states.moved(to)
	g.calls.move(to)
}

// texts describes, for the first regions, which leaders were tried, and why there may be none. It has one text per
// region.
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
