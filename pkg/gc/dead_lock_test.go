package gc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A killed run's lock is alive for minutes by its expiry; gc finds out within one that it is not renewed.
func TestCollect_LockOfAKilledRun_IsDeadAfterAMinuteOfWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		killed := p.lock(t, "r")
		<-time.After(25 * time.Second)
		start, watched := time.Now(), ""
		p.deps.Watching = func(r *runlock.Record) { watched = r.Watching() }
		report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
		require.NoError(t, err)
		require.Equal(t, map[string]Action{"snap-1": ActionDeleted, "snap-2": ActionDeleted, "b": ActionDeleted}, actions(report))
		require.Less(t, time.Since(start), 90*time.Second)
		require.Contains(t, watched, "run r")
		require.Equal(t, failure.Conflict, failure.KindOf(killed.Renew(t.Context())), "one that was only suspended learns of it")
	})
}

// The run was suspended, and continues between the watch and the first deletion.
func TestSweep_SuspendedRunRenewsAfterAll_NothingOfItIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		suspended := p.lock(t, "r")
		<-time.After(25 * time.Second)
		report, w, err := plan(t.Context(), p.deps, Options{})
		require.NoError(t, err)
		require.Equal(t, 3, report.Count(ActionDelete))
		require.NoError(t, suspended.Renew(t.Context()))
		newSweep(p.deps, w, fast).sweep(t.Context(), report)
		require.Equal(t, 3, report.Count(ActionLeft))
		require.Len(t, p.ec2.ids(), 2)
		require.NoError(t, suspended.Renew(t.Context()))
	})
}

func TestDelete_LockOfAKilledRun_IsDeadAfterAMinuteOfWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.seal(t)
		killed := p.lock(t, "r")
		_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
		require.Equal(t, failure.Conflict, failure.KindOf(err), "renewed a moment ago")
		<-time.After(25 * time.Second)
		_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
		require.NoError(t, err)
		require.Empty(t, p.ec2.ids())
		require.Error(t, killed.Renew(t.Context()))
	})
}
