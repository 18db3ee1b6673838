package drill_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// states are the three results.
func states(r *drill.Result) [3]drill.State { return [3]drill.State{r.Restore, r.Checks, r.TearDown} }

func TestRun_AllPass_NothingIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var made []ebs.Volume
	l.db.during = func() { made = l.volumes() }
	r, err := drill.Run(within(t), l.deps(), options())
	require.NoError(t, err)
	require.Equal(t, [3]drill.State{drill.Passed, drill.Passed, drill.Gone}, states(r))
	require.Equal(t, 1, r.Found.Tables)
	require.Len(t, made, 1)
	require.Equal(t, string(runID), made[0].Tags[ebs.TagDrill])
	require.NotEmpty(t, made[0].Tags[ebs.TagDrillExpires])
	require.Equal(t, 2, l.policies, "they are there before the restore")
	require.True(t, l.db.rested)
	l.requireNothing(t)
	f := journal.ReadFacts(l.records(t))
	require.True(t, f.Ended)
	require.NotEmpty(t, f.Drill.Cage.UID)
	require.Equal(t, outside, f.Drill.Cage.Outside)
	require.Len(t, f.Drill.Targets, 1)
	require.NotEqual(t, runID, f.Drill.Targets[0].Run)
}

// GC of the restored cluster is held before the checks, and for longer than they take; without it there are none.
func TestRun_HoldsGCForItsChecks(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"held": nil, "refused": failure.New(failure.Denied, "hold GC", "", "no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var calls []string
			l.db.during = func() { calls = append(calls, "check") }
			d, o := l.deps(), options()
			d.HoldGC = func(_ context.Context, target cluster.Name, run cluster.RunID, ttl time.Duration) error {
				calls = append(calls, "hold")
				assert.Equal(t, l.last, drill.Target{Run: run, Cluster: target, Tags: l.last.Tags})
				assert.GreaterOrEqual(t, ttl, o.Checks.Budget+time.Minute)
				return refused
			}
			r, err := drill.Run(within(t), d, o)
			if refused == nil {
				require.NoError(t, err)
				require.Equal(t, []string{"hold", "check"}, calls)
				return
			}
			require.Error(t, err)
			require.Equal(t, []string{"hold"}, calls)
			require.Equal(t, [3]drill.State{drill.Passed, drill.NotMade, drill.Gone}, states(r))
		})
	}
}

func TestRun_ChecksDoNotPass_IsTornDown(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		db    database
		state drill.State
		kind  failure.Kind
	}{
		"inconsistent":     {database{broken: failure.New(failure.Corrupt, "check", "t", "inconsistent")}, drill.Failed, failure.Unproven},
		"nothing to check": {database{none: true}, drill.Failed, failure.Unproven},
		"no privilege":     {database{broken: failure.New(failure.Denied, "check", "t", "denied")}, drill.NotMade, failure.Unproven},
		"no connection":    {database{refused: failure.New(failure.Denied, "connect", "t", "denied")}, drill.NotMade, failure.Unproven},
		"out of time":      {database{stalls: true}, drill.TimedOut, failure.Limited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.db = &row.db
			o := options()
			o.Checks.Each = 300 * time.Millisecond
			r, err := drill.Run(within(t), l.deps(), o)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.Equal(t, [3]drill.State{drill.Passed, row.state, drill.Gone}, states(r))
			l.requireNothing(t)
		})
	}
}

func TestRun_RestoreFails_IsTornDown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.during = func(drill.Target) error { return failure.New(failure.Limited, "restore", "x", "over a quota") }
	r, err := drill.Run(within(t), l.deps(), options())
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.Equal(t, [3]drill.State{drill.Failed, drill.NotRun, drill.Gone}, states(r))
	l.requireNothing(t)
}

func TestRun_Cancelled_IsTornDown(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"restore", "connect", "check"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, cancel := context.WithCancel(within(t))
			want := [3]drill.State{drill.Passed, drill.NotRun, drill.Gone}
			deps := l.deps()
			switch at {
			case "restore":
				want[0] = drill.Interrupted
				l.during = func(drill.Target) error {
					cancel()
					return context.Canceled
				}
			case "connect":
				deps.Open = func(context.Context, cluster.Name) (drill.Database, error) {
					cancel()
					return nil, context.Canceled
				}
			default:
				l.db.during, l.db.stalls = cancel, true
			}
			r, err := drill.Run(ctx, deps, options())
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, want, states(r))
			l.requireNothing(t)
		})
	}
}

// A cage that is not proven holds nothing.
func TestRun_CageIsNotProven_NothingIsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.open = true
	r, err := drill.Run(within(t), l.deps(), options())
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Equal(t, [3]drill.State{drill.NotRun, drill.NotRun, drill.Gone}, states(r))
	require.Zero(t, l.restores)
	l.requireNothing(t)
}

func TestRun_Refused_ChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*drill.Deps, *drill.Options){
		"no check":         func(_ *drill.Deps, o *drill.Options) { o.Checks.AllTables = false },
		"expires too soon": func(_ *drill.Deps, o *drill.Options) { o.Lifetime = time.Hour },
		"not restorable": func(d *drill.Deps, _ *drill.Options) {
			d.Plan = func(context.Context, cluster.Name) (drill.Planned, error) {
				return drill.Planned{}, failure.New(failure.Unready, "check", "", "no")
			}
		},
		"no volume": func(d *drill.Deps, _ *drill.Options) {
			d.Plan = func(context.Context, cluster.Name) (drill.Planned, error) { return drill.Planned{}, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			d, o := l.deps(), options()
			change(&d, &o)
			r, err := drill.Run(within(t), d, o)
			require.Error(t, err)
			require.Equal(t, [3]drill.State{drill.NotRun, drill.NotRun, drill.NotRun}, states(r))
			require.Empty(t, l.server.MutatingCalls())
			require.Empty(t, l.store.MutatingCalls())
		})
	}
}

// What cannot be removed is in the result, and Clean removes it later, even though the run has ended.
func TestRun_CannotBeTornDown_IsLeftAndCleanedUpLater(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		point string
		kind  failure.Kind
	}{
		"the cluster":   {"kube.delete.tidbclusters", failure.Leaked},
		"the volumes":   {"ec2.DeleteVolume", failure.Leaked},
		"the namespace": {"kube.delete.namespaces", failure.Leaked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			plan, code := l.faults, "Forbidden"
			if !strings.HasPrefix(row.point, "kube.") {
				plan, code = l.ec2Err, "UnauthorizedOperation"
			}
			require.NoError(t, plan.Add(fault.Rule{Point: row.point, Code: code, Times: -1}))
			o := options()
			o.TearDownWithin = 3 * time.Second
			r, err := drill.Run(within(t), l.deps(), o)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), "tisnap drill clean "+string(runID))
			require.Equal(t, [3]drill.State{drill.Passed, drill.Passed, drill.Left}, states(r))
			require.NotEmpty(t, r.Left)
			require.NotEmpty(t, l.server.List("namespaces", ""), "as long as there is anything there is a cage")

			plan.Clear()
			cleaned, err := drill.Clean(within(t), l.deps(), options())
			require.NoError(t, err)
			require.Equal(t, drill.Gone, cleaned.TearDown)
			l.requireNothing(t)
			_, err = drill.Clean(within(t), l.deps(), options())
			require.Equal(t, failure.Conflict, failure.KindOf(err), "there is nothing to do")
		})
	}
}

// A failed check outranks what is left, and the hint still names the command that removes it.
func TestRun_ChecksFailAndSomethingIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.db.broken = failure.New(failure.Corrupt, "check", "t", "inconsistent")
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.namespaces", Code: "Forbidden", Times: -1}))
	o := options()
	o.TearDownWithin = 3 * time.Second
	r, err := drill.Run(within(t), l.deps(), o)
	require.Equal(t, failure.Unproven, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "tisnap drill clean")
	require.Equal(t, [3]drill.State{drill.Passed, drill.Failed, drill.Left}, states(r))
}

// suspend begins a drill, whose process stops at a point, as if it was killed, and whose lock is free from then on. wake
// ends that, and waits for the end of the drill: it notices that it may change nothing any more.
func (l *lab) suspend(t *testing.T, at string) (wake func()) {
	t.Helper()
	stopped, woken, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	stop := func() {
		close(stopped)
		<-woken
	}
	point := ""
	switch at {
	case "cage":
		point = "kube.create.resourcequotas"
	case "proof":
		l.proving = stop
	case "restore":
		l.during = func(drill.Target) error {
			stop()
			return errors.New("woken")
		}
	case "check":
		l.db.during = stop
	case "tear-down":
		point = "kube.delete.namespaces"
	}
	if point != "" {
		require.NoError(t, l.faults.Add(fault.Rule{Point: point, Position: fault.Before, Do: stop}))
	}
	d := l.deps()
	db := *l.db
	d.Open = func(context.Context, cluster.Name) (drill.Database, error) { return &db, nil }
	during := l.during
	d.Restore = func(ctx context.Context, to drill.Target) (drill.Restored, error) {
		return l.restoreWith(ctx, to, during)
	}
	go func() {
		_, err := drill.Run(within(t), d, options())
		ended <- err
	}()
	wait := time.NewTimer(30 * time.Second)
	defer wait.Stop()
	select {
	case <-stopped:
	case err := <-ended:
		require.FailNow(t, "it did not come to that", "%v", err)
	case <-wait.C:
		require.FailNow(t, "it did not come to that")
	}
	require.NotEmpty(t, l.server.List("namespaces", ""))
	l.loseLock(t)
	l.proving, l.during, l.db.during = nil, nil, nil
	wake = sync.OnceFunc(func() {
		close(woken)
		err := <-ended
		assert.Equal(t, failure.Conflict, failure.KindOf(err), "it has lost its lock: %v", err)
	})
	t.Cleanup(wake)
	return wake
}

func TestClean_OfADeadDrill_RemovesAll(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"cage", "proof", "restore", "check", "tear-down"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			wake := l.suspend(t, at)
			r, err := drill.Clean(within(t), l.deps(), options())
			require.NoError(t, err)
			require.Equal(t, drill.Gone, r.TearDown)
			l.requireNothing(t)
			require.True(t, journal.ReadFacts(l.records(t)).Ended)
			wake()
			l.requireNothing(t)
		})
	}
}

func TestRun_AgainAfterItsDeath_RemovesAndStartsFromScratch(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"cage", "proof", "restore", "check", "tear-down"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.suspend(t, at)
			before := l.restores
			var there []ebs.Volume
			l.db.during = func() { there = l.volumes() }
			r, err := drill.Run(within(t), l.deps(), options())
			require.NoError(t, err)
			require.Equal(t, [3]drill.State{drill.Passed, drill.Passed, drill.Gone}, states(r))
			require.Equal(t, before+1, l.restores, "it is restored again")
			require.Len(t, there, 1, "the earlier one's is gone by then")
			l.requireNothing(t)
		})
	}
}

// Someone removed the namespace by hand: what is outside of it goes.
func TestClean_CageIsGone_TheRestGoes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore")
	require.NoError(t, l.server.Remove(l.server.Get("namespaces", "", cage.Name(runID))))
	require.NotEmpty(t, l.volumes())
	_, err := drill.Clean(within(t), l.deps(), options())
	require.NoError(t, err)
	l.requireNothing(t)
}

// A namespace that took the place of the cage is another one, whatever its marks say.
func TestClean_NamespaceIsAnother_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore")
	other := l.server.List("namespaces", "")[0]
	tc := l.server.List("tidbclusters", "")[0]
	require.NoError(t, l.server.Remove(other))
	other.SetUID("")
	other.SetResourceVersion("")
	require.NoError(t, l.server.Put(other))
	tc.SetUID("")
	tc.SetResourceVersion("")
	require.NoError(t, l.server.Put(tc))
	_, err := drill.Clean(within(t), l.deps(), options())
	require.Equal(t, failure.Leaked, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it has UID")
	require.Len(t, l.server.List("namespaces", ""), 1)
	require.Len(t, l.server.List("tidbclusters", ""), 1)
}

// Another drill, a volume of another run and a cluster of someone else in the cage are not this drill's.
func TestClean_WhatIsNotItsOwn_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore")
	own := l.volumes()[0].Tags
	change := func(key, value string) ebs.Tags {
		tags := ebs.Tags{}
		for k, v := range own {
			tags[k] = v
		}
		tags[key] = value
		return tags
	}
	for key, value := range map[string]string{ebs.TagRun: "other", ebs.TagDrill: "other", ebs.TagStorage: "other"} {
		_, err := l.ec2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, change(key, value))
		require.NoError(t, err)
	}
	_, err := l.kube.Cages().Make(within(t), cage.Spec{
		Run: "0-another", Storage: l.storageID(t.Context()), Expires: time.Now(), Pods: 1, Claims: 1, StorageGiB: 1,
	})
	require.NoError(t, err)
	require.NoError(t, l.probe(outside, "other"))
	_, err = drill.Clean(within(t), l.deps(), options())
	require.NoError(t, err)
	require.Len(t, l.volumes(), 3)
	require.Len(t, l.server.List("pods", ""), 1)
	require.Equal(t, cage.Name("0-another"), l.server.List("namespaces", "")[0].GetName())
	require.Len(t, l.server.List("namespaces", ""), 1)
}

// A persistent volume elsewhere names the volume: it is in use by someone.
func TestClean_VolumeIsUsedElsewhere_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore")
	pv := l.server.List("persistentvolumes", "")[0]
	pv.SetName("mine")
	pv.SetUID("")
	pv.SetResourceVersion("")
	pv.SetAnnotations(nil)
	pv.SetLabels(nil)
	require.NoError(t, l.server.Put(pv))
	_, err := drill.Clean(within(t), l.deps(), options())
	require.Equal(t, failure.Leaked, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "persistent volume mine names it")
	require.Len(t, l.volumes(), 1)
}

func TestClean_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.db.during = func() {
		_, err := drill.Clean(within(t), l.deps(), options())
		assert.Equal(t, failure.Conflict, failure.KindOf(err), "it is alive: %v", err)
	}
	_, err := drill.Run(within(t), l.deps(), options())
	require.NoError(t, err)

	l = newLab(t)
	l.suspend(t, "check")
	d := l.deps()
	d.Kube = elsewhere{d.Kube}
	_, err = drill.Clean(within(t), d, options())
	require.Equal(t, failure.Conflict, failure.KindOf(err), "it is another Kubernetes: %v", err)
	require.NotEmpty(t, l.volumes())
}

// elsewhere is another Kubernetes cluster.
type elsewhere struct{ kube.Caged }

func (elsewhere) ClusterUID(context.Context) (string, error) { return "other", nil }

// A restore that asked for volumes when its process died may have more than EC2 shows.
func TestClean_RestoreDiedAskingForVolumes_WaitsForHiddenOnes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore")
	to := l.last
	l.askedForVolumes(t, to)
	late, asked, deleted := make(chan error, 1), 0, false
	tags := ebs.Tags{ebs.TagRun: string(to.Run), ebs.TagStorage: l.storageID(t.Context()), ebs.TagDrill: string(runID)}
	l.ec2Err.Watch(func(point string) *fault.Rule {
		switch {
		case point == "ec2.DeleteVolume":
			deleted = true
		case point == "ec2.DescribeVolumes" && deleted:
			if asked++; asked == 4 {
				go func() {
					_, err := l.ec2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 2}, tags)
					late <- err
				}()
			}
		}
		return nil
	})
	o := options()
	o.Visibility = 3 * time.Second // time to ask four times on a busy machine, too
	_, err := drill.Clean(within(t), l.deps(), o)
	require.NoError(t, err)
	select {
	case err := <-late:
		require.NoError(t, err)
	default:
		require.Fail(t, "it asked EC2 too few times")
	}
	l.requireNothing(t)
}
