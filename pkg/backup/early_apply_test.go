package backup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// newEarlyRig is a cluster whose leaders apply early, and a backup that can turn it off.
func newEarlyRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.deps.EarlyApply = r.tikv
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	return r
}

func (r *rig) limits(t *testing.T) []uint64 {
	t.Helper()
	var out []uint64
	for _, s := range r.c.Stores() {
		limit, known := s.EarlyApplyLimit()
		require.True(t, known)
		out = append(out, limit)
	}
	return out
}

func TestRun_EarlyApply_IsOffDuringTheCutAndPutBack(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	var during []uint64
	r.ebs.cut = func(_ ebs.CutRequest, call func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error) {
		limits := r.limits(t)
		r.ebs.deleting.Lock()
		during = append(during, limits...)
		r.ebs.deleting.Unlock()
		return call()
	}
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	require.Equal(t, make([]uint64, 9), during, "all stores are at 0 at each of the three calls")
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, result.Manifest.EarlyApply)
}

func TestRun_EarlyApply_StoreThatCannotBeSet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy backup.EarlyApplyPolicy
		want   *manifest.EarlyApply
	}{
		{backup.PreventEarlyApply, &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Stores: nil}},
		{backup.RequireNoEarlyApply, nil},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			t.Parallel()
			r := newEarlyRig(t)
			closed := r.c.Stores()[1]
			closed.CloseStatusPort()
			o := r.options()
			o.EarlyApply = tc.policy
			result, err := r.run(t.Context(), t, o)
			require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
			if tc.want == nil {
				require.True(t, failure.Is(err, failure.Unready), err)
				require.ErrorContains(t, err, "store "+cluster.StoreID(closed.ID()).String())
				r.requireUndone(t, o)
				return
			}
			require.NoError(t, err)
			tc.want.Stores = []cluster.StoreID{cluster.StoreID(closed.ID())}
			require.Equal(t, tc.want, result.Manifest.EarlyApply)
		})
	}
}

func TestRun_EarlyApplyIgnored_IsUnproven(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	o := r.options()
	o.EarlyApply = backup.IgnoreEarlyApply
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}, result.Manifest.EarlyApply)
	for _, record := range r.journal(t, o) {
		require.NotEqual(t, journal.IntentEarlyApply, record.Name)
	}
}

// The process died with early apply off: its journal records it, and a release puts it back.
func TestRelease_EarlyApplyOfADeadRun_IsPutBack(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	o := r.options()
	r.ebs.cut = func(ebs.CutRequest, func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error) {
		for _, s := range r.c.Stores() {
			s.CloseStatusPort()
		}
		return nil, failure.New(failure.Denied, "create snapshots", "", "no")
	}
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Held, failure.KindOf(err), "the exit code reports what is not put back")
	require.Contains(t, failure.HintsOf(err)[0], "tisnap release")
	status, err := backup.Status(t.Context(), r.store, r.deps.PD, nil, prod)
	require.NoError(t, err)
	require.Len(t, status.EarlyApply, 3)
	require.Equal(t, o.Run, status.EarlyApply[0].By)
	require.True(t, status.Held())
	_, err = backup.Release(t.Context(), r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, EarlyApply: r.tikv})
	require.Equal(t, failure.Held, failure.KindOf(err), "the status ports are closed")
}

// Once the status ports answer again, a release puts back what the run had to leave.
func TestRelease_EarlyApply_SucceedsOnceTheStoresAnswer(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	o := r.options()
	r.ebs.cut = func(ebs.CutRequest, func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error) {
		r.fault(t, fault.Rule{Point: "tikv.*.Status.PostConfig", Position: fault.Before, Times: -1})
		return nil, failure.New(failure.Denied, "create snapshots", "", "no")
	}
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Held, failure.KindOf(err))
	require.Equal(t, []uint64{0, 0, 0}, r.limits(t))
	status := func() *hold.Status {
		status, err := backup.Status(t.Context(), r.store, r.deps.PD, r.tikv, prod)
		require.NoError(t, err)
		return status
	}
	for _, e := range status().EarlyApply {
		require.Equal(t, o.Run, e.By)
		require.Zero(t, *e.Now, "as the store reports itself")
	}
	require.Len(t, status().EarlyApply, 3)
	r.faults.Clear()
	done, err := backup.Release(t.Context(), r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, EarlyApply: r.tikv})
	require.NoError(t, err)
	require.Len(t, done.EarlyApply, 3)
	require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t))
	require.Empty(t, status().EarlyApply)
	require.NoError(t, r.tikv.SetEarlyApply(t.Context(), r.c.Stores()[0].StatusAddr(), 0))
	off, err := backup.Status(t.Context(), nil, r.deps.PD, r.tikv, prod)
	require.NoError(t, err)
	require.Len(t, off.EarlyApply, 1, "the store reports it, and no run is known to have done it")
	require.Empty(t, off.EarlyApply[0].By)
	require.False(t, off.Held())
}
