package backup_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
)

const recordKey = "/tisnap/early-apply"

// killedPause leaves what a pause leaves that is killed and whose hold has run out: early apply off, and PD's record of what
// it was. While the pause held, during saw it.
func killedPause(t *testing.T, r *rig, during func()) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var record string
	var recorded bool
	require.NoError(t, backup.Pause(ctx, backup.PauseDeps{PD: r.deps.PD, TiKV: r.deps.TiKV, EarlyApply: r.tikv, Log: zap.NewNop()}, backup.PauseOptions{
		Cluster: prod, Run: "killed", Lease: 30 * time.Second, MaxHold: time.Minute, Holder: hold.Holder{Host: "br-x", Pod: true},
		Ready: func() {
			record, recorded = r.c.PD.Etcd(recordKey)
			if during != nil {
				during()
			}
			end()
		},
	}))
	require.True(t, recorded, "before anything is turned off")
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	r.requireNoRecord(t)
	for _, s := range r.c.Stores() {
		require.NoError(t, r.tikv.SetEarlyApply(t.Context(), s.StatusAddr(), 0))
	}
	r.c.PD.SetEtcd(recordKey, record)
}

func (r *rig) requireNoRecord(t *testing.T) {
	t.Helper()
	record, recorded := r.c.PD.Etcd(recordKey)
	require.False(t, recorded, record)
}

// A pause has no storage, and a journal may be too old: what was turned off is written down in PD.
func TestRelease_EarlyApplyOfAKilledPause_IsPutBack(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	killedPause(t, r, nil)
	status, err := backup.Status(t.Context(), nil, r.deps.PD, r.tikv, prod)
	require.NoError(t, err)
	require.True(t, status.Held())
	require.Len(t, status.EarlyApply, 3)
	run, holder, _ := hold.SplitHolder(status.EarlyApply[0].By)
	require.EqualValues(t, "killed", run)
	require.Equal(t, &holder, status.EarlyApply[0].Holder)
	require.WithinDuration(t, time.Now(), status.EarlyApply[0].Since, time.Minute)
	require.EqualValues(t, 1024, status.EarlyApply[0].Limit)
	done, err := backup.Release(t.Context(), objstoretest.NewMemory(nil), r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, EarlyApply: r.tikv})
	require.NoError(t, err)
	require.Len(t, done.EarlyApply, 3)
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	r.requireNoRecord(t)
}

// While the pause lives, its GC safe point shows it.
func TestRelease_EarlyApplyOfALivePause_StaysOff(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	killedPause(t, r, func() {
		left, err := backup.PlanRelease(t.Context(), objstoretest.NewMemory(nil), r.deps.PD, backup.ReleaseOptions{Cluster: prod})
		require.NoError(t, err)
		require.Empty(t, left.Early)
		left, err = backup.PlanRelease(t.Context(), objstoretest.NewMemory(nil), r.deps.PD, backup.ReleaseOptions{Cluster: prod, All: true})
		require.NoError(t, err)
		require.Len(t, left.Early, 3)
	})
}

func TestRun_EarlyApplyLeftOffByAKilledPause_IsPutBackAtItsEnd(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	killedPause(t, r, nil)
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, result.Manifest.EarlyApply)
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	r.requireNoRecord(t)
}

// What a run turned off before the group of steps that may be attempted again is put back by its undo, too.
func TestAbort_DiedBeforeItsRelease_EarlyApplyIsPutBack(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"read-replicas", "cut", "release"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newEarlyRig(t)
			o := r.options()
			r.diesAt(t, o, step)
			for _, s := range r.c.Stores() { // as they were when it died
				require.NoError(t, r.tikv.SetEarlyApply(t.Context(), s.StatusAddr(), 0))
			}
			require.NoError(t, backup.Abort(t.Context(), r.deps, o))
			require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
		})
	}
}

// A PD that takes no record is no reason for a backup that proves less: the journal has the limits, too.
func TestRun_PDTakesNoRecord_EarlyApplyIsExcludedAllTheSame(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	r.fault(t, fault.Rule{Point: "pd.EtcdTxn", Code: "400", Times: -1})
	result, err := r.run(t.Context(), t, r.options())
	require.NoError(t, err)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, result.Manifest.EarlyApply)
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
}

// restarting is a PD that lists the stores' next processes once they have been asked for their settings.
type restarting struct {
	backup.PD
	tikv.EarlyApplier
	asked atomic.Bool
}

func (r *restarting) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := r.PD.Stores(ctx)
	for i := range stores {
		if !r.asked.Load() {
			stores[i].StartedAt = stores[i].StartedAt.Add(-time.Hour)
		}
	}
	return stores, err
}

func (r *restarting) EarlyApply(ctx context.Context, address string) (tikv.EarlyApply, error) {
	r.asked.Store(true)
	return r.EarlyApplier.EarlyApply(ctx, address)
}

// Stores that were restarted while they were asked are on record as the processes that are set.
func TestPause_StoresRestartWhileTheyAreAsked_RecordIsOfTheirNewProcesses(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	p := &restarting{PD: r.deps.PD, EarlyApplier: r.tikv}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	require.NoError(t, backup.Pause(ctx, backup.PauseDeps{PD: p, TiKV: r.deps.TiKV, EarlyApply: p, Log: zap.NewNop()}, backup.PauseOptions{
		Cluster: prod, Run: "r", Lease: 30 * time.Second, MaxHold: time.Minute,
		Ready: func() {
			status, err := backup.Status(t.Context(), nil, r.deps.PD, nil, prod)
			require.NoError(t, err)
			require.Len(t, status.EarlyApply, 3)
			end()
		},
	}))
}

// A record that cannot be read, as a newer version's, is no reason to leave the rest held, nor to report as held a cluster whose
// limits are back. It stays.
func TestRelease_RecordCannotBeRead_AllElseIsReleased(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	r.c.PD.SetEtcd(recordKey, "?")
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))

	require.NoError(t, r.deps.PD.PauseScheduler(t.Context(), "balance-leader-scheduler", time.Minute))
	status, err := backup.Status(t.Context(), nil, r.deps.PD, r.tikv, prod)
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	require.Len(t, status.Schedulers, 1)
	done, err := backup.Release(t.Context(), objstoretest.NewMemory(nil), r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, All: true})
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "/tisnap/early-apply")
	require.Equal(t, []string{"balance-leader-scheduler"}, done.Schedulers)
	record, _ := r.c.PD.Etcd(recordKey)
	require.Equal(t, "?", record)
}
