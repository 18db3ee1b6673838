package restore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
)

// A dry run of a resolve takes the lock of a killed run for dead as the resolve itself would, and writes nothing.
func TestPlanResolve_LockOfAKilledRun_IsFreeAfterAMinuteOfWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := cluster.Name{Namespace: "tidb", Name: "copy"}
		store := objstoretest.NewMemory(nil)
		killed, err := runlock.Acquire(t.Context(), store, here, runlock.Owner{Run: "killed", Command: "restore"}, runner.LockTTL)
		require.NoError(t, err)
		impatient := newRun(Deps{Store: store}, Options{Target: here, Run: "mine", LockWait: runlock.NoWait}, byRun)
		err = impatient.runner.Check(t.Context(), impatient.lockIsFreeStep())
		require.Equal(t, failure.Conflict, failure.KindOf(err), "it was renewed a moment ago")
		r := newRun(Deps{Store: store}, Options{Target: here, Run: "mine"}, byRun)
		step, start := r.lockIsFreeStep(), time.Now()
		require.NoError(t, r.runner.Check(t.Context(), step))
		require.Less(t, time.Since(start), 70*time.Second)
		require.NoError(t, killed.Renew(t.Context()))
		time.AfterFunc(20*time.Second, func() { _ = killed.Renew(t.Context()) })
		err = r.runner.Check(t.Context(), step)
		require.Equal(t, failure.Conflict, failure.KindOf(err), "it is alive")
	})
}
