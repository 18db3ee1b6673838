package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// lived is a cluster that has lived for a while: writes, splits, merges, moved replicas, elections, lags.
func lived(t *rapid.T) *world {
	w := newWorld(t)
	for range rapid.IntRange(0, 400).Draw(t, "steps") + rapid.SampledFrom([]int{0, 100, 300}).Draw(t, "more steps") {
		w.step(true)
	}
	return w
}

// log writes down what was copied: it is shown when a check fails.
func (w *world) log(images map[cluster.StoreID]image) {
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[id]
		w.t.Logf("region %s: voters %v, learner %s, led by store %s", id, g.voters, g.learner, g.leader)
	}
	for _, s := range slices.Sorted(maps.Keys(images)) {
		for _, id := range slices.Sorted(maps.Keys(images[s])) {
			r := images[s][id]
			w.t.Logf("store %s region %s [%d,%d) version %d: %d entries to term %d, %d applied, vote %d, peer %s",
				s, id, r.start, r.end, r.version, len(r.log), last(r.log), r.applied, r.vote, r.peer)
		}
	}
}

// sound checks what every plan must be, whatever the metas are.
func sound(t require.TestingT, plan *plan.Plan, metas peers) {
	var ranges []cluster.KeyRange
	led := map[cluster.RegionID]bool{}
	for _, l := range plan.Leaders {
		ranges = append(ranges, l.Keys)
		require.False(t, led[l.Region], "region %s is led twice", l.Region)
		led[l.Region] = true
		mine := -1
		for store, list := range metas {
			for _, m := range list {
				if m.Region != l.Region {
					continue
				}
				if store == l.Store {
					mine = 1
				}
				require.False(t, m.LastLogTerm > l.Term || m.LastLogTerm == l.Term && m.LastIndex > l.Index,
					"region %s: store %s has more log than the leader on store %s", l.Region, store, l.Store)
				require.LessOrEqual(t, m.Version, l.Version)
			}
		}
		require.Equal(t, 1, mine, "region %s has no peer on store %s", l.Region, l.Store)
	}
	require.NoError(t, cluster.Tile(ranges, 3))
}

// elected reports whether the region's voters, as they come back from the images, elect the planned leader. A learner
// that is asked to campaign does so, and voters ask a candidate for its log alone: in raft-rs, src/raft.rs, promotable
// is asked by the election timer and by MsgTimeoutNow, and not by hup(), which RecoverRegion comes to.
func elected(g *group, l plan.Leader, images map[cluster.StoreID]image) bool {
	candidate, votes := images[l.Store][l.Region], 0
	if !g.mayLead(l.Store) {
		return false // what is left of a replica that was moved
	}
	for _, s := range g.voters {
		if r := images[s][l.Region]; r != nil && upToDate(candidate, r) || r == nil && unsplit(candidate, images[s]) {
			votes++
		}
	}
	return votes > len(g.voters)/2
}

// mayLead reports whether a store's peer becomes the leader if it is asked to and has the best log.
func (g *group) mayLead(store cluster.StoreID) bool {
	return store != 0 && store == g.learner || slices.Contains(g.voters, store)
}

// unsplit reports whether the store has yet to apply the split that makes the region; then it votes for anybody.
func unsplit(candidate *replica, on image) bool {
	for _, r := range on {
		if r.version < candidate.version && overlaps(r, candidate) {
			return true
		}
	}
	return false
}

// keeps checks that the leader's log holds every entry that was committed when the copies began.
func keeps(t require.TestingT, l plan.Leader, committed []entry, images map[cluster.StoreID]image) {
	log := images[l.Store][l.Region].log
	require.GreaterOrEqual(t, len(log), len(committed), "region %s on store %s lost committed entries", l.Region, l.Store)
	require.Equal(t, committed, log[:len(committed)], "region %s on store %s", l.Region, l.Store)
}

// A cluster that was held through the cut is never refused, and every leader has all that was committed.
func TestMakePlan_HeldCluster_KeepsAllThatWasCommitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := lived(t)
		w.hold()
		before := w.committed()
		images := w.cut(false)
		w.log(images)
		metas := reported(images, false)
		plan, err := makePlan(t, metas, 3)
		require.NoError(t, err, "a good backup is refused")
		sound(t, plan, metas)
		for _, l := range plan.Leaders {
			g := w.groups[l.Region]
			if g == nil {
				continue // a region that is to be merged: it is suspended
			}
			keeps(t, l, before[l.Region], images)
			if g.mayLead(l.Store) {
				require.True(t, elected(g, l, images), "region %s is not led by store %s", l.Region, l.Store)
			}
		}
	})
}

// TiKV 8.5 reports the term of the last vote for that of the log. What raft elects still has everything then.
func TestMakePlan_HardStateTerms_WhatIsElectedKeepsAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := lived(t)
		w.hold()
		before := w.committed()
		images := w.cut(false)
		w.log(images)
		metas := reported(images, true)
		plan, err := makePlan(t, metas, 3)
		require.NoError(t, err, "a good backup is refused")
		sound(t, plan, metas)
		for _, l := range plan.Leaders {
			if g := w.groups[l.Region]; g != nil && elected(g, l, images) {
				keeps(t, l, before[l.Region], images)
			}
		}
	})
}

// Without a store's images a plan may be refused; one that is made loses nothing. With the store goes what distinguishes
// what is left of a voter from a voter: such a leader is not elected, which loses nothing either.
func TestMakePlan_LostStore_KeepsAllOrRefuses(t *testing.T) {
	t.Parallel()
	made, plans := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := lived(t)
		w.hold()
		before := w.committed()
		images := w.cut(false)
		w.log(images)
		plans++
		lost := rapid.SampledFrom(w.stores).Draw(t, "lost")
		delete(images, lost)
		metas := reported(images, false)
		plan, err := makePlan(t, metas, 3, lost)
		if err != nil {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		made++
		sound(t, plan, metas)
		for _, l := range plan.Leaders {
			g := w.groups[l.Region]
			if g == nil {
				continue
			}
			keeps(t, l, before[l.Region], images)
			there := 0
			for _, s := range g.voters {
				if images[s][l.Region] != nil {
					there++
				}
			}
			if g.mayLead(l.Store) && there > len(g.voters)/2 {
				require.True(t, elected(g, l, images), "region %s is not led by store %s", l.Region, l.Store)
			}
		}
	})
	t.Logf("%d of %d plans made", made, plans)
	require.Greater(t, made, plans/10, "plans are refused as a rule")
}

// Of a cluster that nothing held, any mixture of times may come: a plan is sound or refused.
func TestMakePlan_ClusterThatWasNotHeld_IsSoundOrRefused(t *testing.T) {
	t.Parallel()
	refused, plans, regions, merges := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := lived(t)
		metas := reported(w.cut(true), rapid.Bool().Draw(t, "hard state"))
		plan, err := makePlan(t, metas, 3)
		plans, regions, merges = plans+1, regions+len(w.groups), merges+len(w.merged)
		if err != nil {
			refused++
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		sound(t, plan, metas)
	})
	t.Logf("%d of %d plans refused, %d regions and %d merges in all", refused, plans, regions, merges)
	require.Greater(t, regions, 2*plans, "the clusters are too simple to prove anything")
	require.Greater(t, merges, plans/20, "the clusters are too simple to prove anything")
}
