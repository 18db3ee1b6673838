package hold_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// dead is a cluster whose holder was killed a moment ago.
func dead(t *testing.T) *rig {
	t.Helper()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	h.Die()
	return r
}

func (r *rig) schedulers() []string {
	var names []string
	for _, s := range r.server.Schedulers() {
		names = append(names, s.Name)
	}
	return names
}

// limits are those that a hold overrides at this moment.
func (r *rig) limits() []string {
	var items []string
	for item, value := range r.server.TTLConfigs() {
		if value == "0" || value == "false" {
			items = append(items, item)
		}
	}
	return items
}

func TestDescribe_ShowsWhatIsPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	status, err := hold.Describe(ctx, r.pd)
	require.NoError(t, err)
	require.False(t, status.Held())

	h := r.newHold(t, func(c *hold.Config) { c.Lease = time.Minute })
	require.NoError(t, r.pd.SetTTLConfig(ctx, map[string]any{"schedule.max-merge-region-size": 7}, time.Minute))
	running, err := h.Running(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, r.schedulers(), running)
	began := time.Now()
	require.NoError(t, r.acquire(ctx, h))
	status, err = hold.Describe(ctx, r.pd)
	require.NoError(t, err)
	require.True(t, status.Held())
	require.Len(t, status.Schedulers, len(running))
	first, last := began.Add(time.Minute-2*time.Second), time.Now().Add(time.Minute+2*time.Second) // PD rounds to seconds
	require.WithinRange(t, status.Schedulers[0].Until, first, last)
	status.Attribute("run-1", running[:1], []string{"schedule.leader-schedule-limit", "schedule.max-merge-region-size"})
	limits := map[string]hold.Limit{}
	for _, l := range status.Limits {
		require.WithinRange(t, l.Until, first, last, l.Item)
		l.Until = time.Time{}
		limits[l.Item] = l
	}
	require.Len(t, limits, 8+1)
	require.Equal(t, hold.Limit{Item: "schedule.leader-schedule-limit", Value: "0", Ours: true, By: "run-1"}, limits["schedule.leader-schedule-limit"])
	require.Equal(t, hold.Limit{Item: "schedule.max-merge-region-size", Value: "7"}, limits["schedule.max-merge-region-size"], "no hold makes it")
	by := map[string]string{}
	for _, s := range status.Schedulers {
		by[s.Name] = string(s.By)
	}
	require.Equal(t, "run-1", by[running[0]])
	require.Empty(t, by[running[1]])
	require.Len(t, status.SafePoints, 1)
	require.Equal(t, "run-1", string(status.SafePoints[0].Run))
}

func TestReleaseLeftovers_AfterAKill_LeavesNothing(t *testing.T) {
	t.Parallel()
	r := dead(t)
	ctx := within(t, 20*time.Second)
	require.NotEmpty(t, r.server.TTLConfigs())
	done, err := hold.ReleaseLeftovers(ctx, hold.DeadHolds{Cluster: name, Schedulers: r.schedulers(), Limits: r.limits()}, r.pd, r.tikv)
	require.NoError(t, err)
	r.requireFree(t)
	require.True(t, done.Any())
	require.Len(t, done.Schedulers, 4)
	require.Len(t, done.Limits, 8)
	require.Equal(t, []string{"tisnap-run-1"}, done.SafePoints)
	require.Len(t, done.Leases, 3)
	require.Len(t, done.Imports, 3)
	require.Empty(t, done.Kept)

	done, err = hold.ReleaseLeftovers(ctx, hold.DeadHolds{Cluster: name}, r.pd, r.tikv)
	require.NoError(t, err)
	require.False(t, done.Any(), "the second time there is nothing")
}

func TestReleaseLeftovers_SchedulersOfUnknownOrigin_AreKeptUnlessAll(t *testing.T) {
	t.Parallel()
	r := dead(t)
	ctx := within(t, 20*time.Second)
	require.NoError(t, r.pd.SetTTLConfig(ctx, map[string]any{"schedule.max-merge-region-size": 7}, time.Minute))
	names, limits := r.schedulers(), r.limits()
	done, err := hold.ReleaseLeftovers(ctx, hold.DeadHolds{Cluster: name, Schedulers: names[:1], Limits: limits[2:]}, r.pd, r.tikv)
	require.NoError(t, err)
	require.Equal(t, names[:1], done.Schedulers)
	require.ElementsMatch(t, names[1:], done.Kept)
	require.ElementsMatch(t, limits[2:], done.Limits)
	require.ElementsMatch(t, limits[:2], done.KeptLimits)
	require.Len(t, r.left(t), 3+2+1, "the schedulers and limits kept, and an override that no hold makes")
	done, err = hold.ReleaseLeftovers(ctx, hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
	require.NoError(t, err)
	require.ElementsMatch(t, names[1:], done.Schedulers)
	require.Equal(t, []string{"limit schedule.max-merge-region-size"}, r.left(t))
}

func TestReleaseLeftovers_StoreAway_LetsTheRestGoAndIsHeld(t *testing.T) {
	t.Parallel()
	r := dead(t)
	r.stores[1].Kill()
	done, err := hold.ReleaseLeftovers(within(t, 20*time.Second), hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
	require.Equal(t, failure.Held, failure.KindOf(err))
	require.ErrorContains(t, err, r.stores[1].Addr())
	require.NotEmpty(t, failure.HintOf(err))
	require.Len(t, done.Leases, 2)
	require.Empty(t, r.left(t))
}

// The command for the worst day waits for no store that hangs, and what is left on that store is as little as can be.
func TestReleaseLeftovers_StoreHangs_EndsWithTheRestReleased(t *testing.T) {
	t.Parallel()
	r := dead(t)
	r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[1].ID()) + ".PrepareSnapshotBackup.Finish", Position: fault.Stall})
	type answer struct {
		done *hold.Released
		err  error
	}
	released := make(chan answer, 1)
	go func() {
		done, err := hold.ReleaseLeftovers(context.WithoutCancel(t.Context()), hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
		released <- answer{done, err}
	}()
	select {
	case a := <-released:
		require.Equal(t, failure.Held, failure.KindOf(a.err))
		require.ErrorContains(t, a.err, r.stores[1].Addr())
		require.Len(t, a.done.Leases, 2)
		require.Len(t, a.done.Imports, 3, "its imports are resumed all the same")
	case <-within(t, prompt).Done():
		require.Fail(t, "the release hangs with the store")
	}
	_, err := hold.ReleaseLeftovers(within(t, 20*time.Second), hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
	require.NoError(t, err)
	r.requireFree(t)
}

// Without PD it is unknown whether the cluster is held: that is no lesser error than one of a store.
func TestReleaseLeftovers_PDAway_IsHeld(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	r := dead(t)
	for _, point := range []string{"pd.Schedulers", "pd.Stores"} {
		t.Run(point, func(t *testing.T) { // one cluster
			_, err := hold.ReleaseLeftovers(within(t, 20*time.Second), hold.DeadHolds{Cluster: name, All: true}, withoutPD{PD: r.pd, call: point}, r.tikv)
			require.Equal(t, failure.Held, failure.KindOf(err), "%v", err)
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}

// withoutPD is a PD one of whose calls gets no answer.
type withoutPD struct {
	hold.PD

	call string
}

func (w withoutPD) Schedulers(ctx context.Context) ([]pd.Scheduler, error) {
	if w.call == "pd.Schedulers" {
		return nil, failure.New(failure.Limited, "list schedulers", "", "no leader")
	}
	return w.PD.Schedulers(ctx)
}

func (w withoutPD) Stores(ctx context.Context) ([]pd.Store, error) {
	if w.call == "pd.Stores" {
		return nil, failure.New(failure.Limited, "list stores", "", "no leader")
	}
	return w.PD.Stores(ctx)
}

// A live hold whose leases another process ended is broken, and does not continue as if nothing had happened.
func TestReleaseLeftovers_OfALiveHold_BreaksIt(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	_, err := hold.ReleaseLeftovers(within(t, 20*time.Second), hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
	require.NoError(t, err)
	broken(t, h)
	broke, err := h.Release(within(t, 10*time.Second))
	require.Error(t, broke)
	require.NoError(t, err)
	r.requireFree(t)
}
