package ebs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// volume makes one volume from a new snapshot, and waits until it is available.
func (a *account) volume(t *testing.T) ebs.Volume {
	t.Helper()
	v, err := a.CreateVolume(t.Context(), request(a.source(t), "token"))
	require.NoError(t, err)
	eventually(t, "volume available", func() bool {
		found, err := a.DescribeVolumes(t.Context(), []cluster.VolumeID{v.ID})
		if err == nil && len(found) == 1 {
			v = found[0]
		}
		return v.State == ebs.VolumeAvailable
	})
	return v
}

func (a *account) modification(t *testing.T, id cluster.VolumeID, state ebs.ModificationState) ebs.Modification {
	t.Helper()
	var m ebs.Modification
	eventually(t, string(state), func() bool {
		found, err := a.Modifications(t.Context(), []cluster.VolumeID{id})
		require.NoError(t, err)
		require.Len(t, found, 1)
		m = found[0]
		return m.State == state
	})
	return m
}

func TestModifyVolume_NewProfile_HoldsAndCostsOneCall(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	v := a.volume(t)
	none, err := a.Modifications(t.Context(), []cluster.VolumeID{v.ID, "vol-0fffffffffffffff0"})
	require.NoError(t, err)
	require.Empty(t, none)

	wanted := cluster.VolumeSpec{IOPS: 5000, ThroughputMiB: 500}
	m, err := a.ModifyVolume(t.Context(), v.ID, wanted)
	require.NoError(t, err)
	require.Equal(t, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10, IOPS: 5000, ThroughputMiB: 500}, m.To)
	again, err := a.ModifyVolume(t.Context(), v.ID, wanted)
	require.NoError(t, err, "asked again while EC2 is at it")
	require.Equal(t, m.To, again.To)
	done := a.modification(t, v.ID, ebs.ModificationCompleted)
	require.True(t, done.Accepted())
	require.Equal(t, 100, done.Progress)

	calls := a.faults.Calls("ec2.ModifyVolume")
	m, err = a.ModifyVolume(t.Context(), v.ID, wanted)
	require.NoError(t, err)
	require.Equal(t, ebs.ModificationCompleted, m.State)
	require.Equal(t, calls, a.faults.Calls("ec2.ModifyVolume"), "what the volume has costs no modification")

	for iops := range int64(3) {
		_, err = a.ModifyVolume(t.Context(), v.ID, cluster.VolumeSpec{IOPS: 3000 + iops})
		require.NoError(t, err, "four in 24 hours")
		a.modification(t, v.ID, ebs.ModificationCompleted)
	}
	_, err = a.ModifyVolume(t.Context(), v.ID, cluster.VolumeSpec{IOPS: 4000})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "four modifications of one volume in 24 hours")
}

func TestModifyVolume_AnswerLost_FoundAsBegun(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	v := a.volume(t)
	a.fault(t, fault.Rule{Point: "ec2.ModifyVolume", Position: fault.After})
	m, err := a.ModifyVolume(t.Context(), v.ID, cluster.VolumeSpec{IOPS: 4000})
	require.NoError(t, err)
	require.Equal(t, int64(4000), m.To.IOPS)
}

func TestModifyVolume_Refused_KindByReason(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	a := newAccount(t)
	v := a.volume(t)
	for name, test := range map[string]struct {
		id   cluster.VolumeID
		spec cluster.VolumeSpec
		kind failure.Kind
	}{
		"no id":      {"", cluster.VolumeSpec{IOPS: 4000}, failure.Usage},
		"gone":       {"vol-0fffffffffffffff0", cluster.VolumeSpec{IOPS: 4000}, failure.NotFound},
		"smaller":    {v.ID, cluster.VolumeSpec{SizeGiB: 9}, failure.Usage},
		"impossible": {v.ID, cluster.VolumeSpec{IOPS: 100_000}, failure.Usage},
		"another":    {v.ID, cluster.VolumeSpec{Type: "io2"}, failure.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.ModifyVolume(t.Context(), test.id, test.spec)
			require.Equal(t, test.kind, failure.KindOf(err), "%s: %v", name, err)
		})
	}
	require.Zero(t, a.faults.Calls("ec2.ModifyVolume"))
}

func TestModifyVolume_FailsAtEC2_IsReportedAndNotBegun(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.Modification.Modifying = ebstest.Span{Least: time.Hour, Most: time.Hour}
		c.Rules.Modification.Most = 1
	})
	v := a.volume(t)
	_, err := a.ModifyVolume(t.Context(), v.ID, cluster.VolumeSpec{IOPS: 4000})
	require.NoError(t, err)
	require.NoError(t, a.server.FailModification(v.ID, "no capacity"))
	require.Equal(t, "no capacity", a.modification(t, v.ID, ebs.ModificationFailed).Message)
	_, err = a.ModifyVolume(t.Context(), v.ID, cluster.VolumeSpec{IOPS: 4000})
	require.Error(t, err)
}

func TestFastRestore_TwelveSnapshots_BatchedEnabledAndDisabled(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.FastRestore.Snapshots = 12 })
	i, volumes := a.instance(t, 12)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	var ids []cluster.SnapshotID
	for _, s := range a.await(t, made) {
		ids = append(ids, s.ID)
	}
	zones := []cluster.Zone{"us-west-2a", "us-west-2b"}
	got, err := a.EnableFastRestore(t.Context(), ids, zones)
	require.NoError(t, err)
	require.Len(t, got, 24)
	require.Equal(t, 2, a.faults.Calls("ec2.EnableFastSnapshotRestores"))
	eventually(t, "enabled", func() bool {
		found, err := a.FastRestores(t.Context(), ids)
		require.NoError(t, err)
		require.Len(t, found, 24)
		for _, f := range found {
			if f.State != ebs.FastRestoreEnabled || f.EnabledAt.IsZero() {
				return false
			}
		}
		return true
	})
	all, err := a.FastRestores(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, all, 24)
	require.NoError(t, a.DisableFastRestore(t.Context(), ids, zones))
	require.Empty(t, a.server.FastRestores())
	require.NoError(t, a.DisableFastRestore(t.Context(), ids, zones), "disabling what is not enabled")
	require.NoError(t, a.DisableFastRestore(t.Context(), []cluster.SnapshotID{"snap-0fffffffffffffff0"}, zones))
}

func TestFastRestore_QuotaUsedUp_LimitedWithWhatWasEnabled(t *testing.T) {
	t.Parallel()
	a := newAccount(t) // a quota of 5
	i, volumes := a.instance(t, 7)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	var ids []cluster.SnapshotID
	for _, s := range a.await(t, made) {
		ids = append(ids, s.ID)
	}
	got, err := a.EnableFastRestore(t.Context(), ids, []cluster.Zone{zone})
	require.Error(t, err)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.Len(t, got, 5)
	require.Len(t, a.server.FastRestores(), 5)
	require.NoError(t, a.DisableFastRestore(t.Context(), ids, []cluster.Zone{zone}))
	require.Empty(t, a.server.FastRestores())
}

func TestDisableFastRestore_OneBatchDenied_OthersStillDisabled(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.FastRestore.Snapshots = 12 })
	i, volumes := a.instance(t, 12)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	var ids []cluster.SnapshotID
	for _, s := range a.await(t, made) {
		ids = append(ids, s.ID)
	}
	_, err = a.EnableFastRestore(t.Context(), ids, []cluster.Zone{zone})
	require.NoError(t, err)
	a.fault(t, fault.Rule{Point: "ec2.DisableFastSnapshotRestores", Position: fault.Before, Code: "UnauthorizedOperation"})
	err = a.DisableFastRestore(t.Context(), ids, []cluster.Zone{zone})
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Len(t, a.server.FastRestores(), 10, "the second batch of 2 is off")
}

func TestFastRestore_Credits_AsDocumented(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	enabled := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := ebs.FastRestore{State: ebs.FastRestoreEnabled, EnabledAt: enabled}
	for _, test := range []struct {
		gib   int64
		hours float64
		taken int
		want  float64
	}{
		{1024, 0, 0, 0}, {1024, 0.4, 0, 0.4}, {1024, 1, 0, 1}, {1024, 5, 0, 1}, {1024, 5, 1, 0},
		{3072, 3, 0, 1}, {100, 0.5, 0, 5}, {100, 2, 0, 10}, {512, 3, 0, 2},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			at := enabled.Add(time.Duration(test.hours * float64(time.Hour)))
			require.InDelta(t, test.want, f.Credits(test.gib, test.taken, at), 0.001, "%+v", test)
		})
	}
	require.Equal(t, enabled.Add(3*time.Hour), f.CreditAt(3072))
	optimizing := ebs.FastRestore{State: ebs.FastRestoreOptimizing}
	require.Zero(t, optimizing.Credits(100, 0, enabled))
	require.True(t, optimizing.CreditAt(100).IsZero())
}

func TestInitializations_Rate_ProgressToTheEnd(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Initialization.LazyRate = 1 << 10 })
	from := a.source(t)
	req := request(from, "rated")
	req.InitializationMiB = 300
	rated, err := a.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	var got []ebs.Initialization
	eventually(t, "initialized", func() bool {
		got, err = a.Initializations(t.Context(), []cluster.VolumeID{rated.ID, "vol-0fffffffffffffff0"})
		return err == nil && len(got) == 1 && got[0].Done()
	})
	require.True(t, got[0].Rated)
	require.NotEmpty(t, got[0].Status)

	req.Token, req.InitializationMiB = "slow", 99
	_, err = a.CreateVolume(t.Context(), req)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestCreateVolume_VanishedWithItsToken_BurnedThenNewToken(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	from := a.source(t)
	req := request(from, ebs.Token(1, "run-1", "store-1", "data"))
	a.server.VanishNext(1)
	lost, err := a.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	eventually(t, "vanished", func() bool {
		found, err := a.DescribeVolumes(t.Context(), []cluster.VolumeID{lost.ID})
		v, there := a.server.Volume(lost.ID)
		return err == nil && len(found) == 0 && (!there || v.State == ebs.VolumeDeleted)
	})
	_, err = a.CreateVolume(t.Context(), req)
	require.True(t, ebs.TokenBurned(err), "%v", err)
	require.Equal(t, failure.Conflict, failure.KindOf(err))

	req.Token = ebs.Token(2, "run-1", "store-1", "data")
	made, err := a.CreateVolume(t.Context(), req)
	require.NoError(t, err)

	other := req
	other.Spec.IOPS = 4000
	_, err = a.CreateVolume(t.Context(), other)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.False(t, ebs.TokenBurned(err), "its volume lives: another token would make a second one")
	require.ErrorContains(t, err, string(made.ID))
}

func TestToken_DeterministicShortAndOwnToEachGeneration(t *testing.T) {
	t.Parallel()
	one := ebs.Token(1, "run", "store", "data")
	require.Len(t, one, 64)
	require.Equal(t, one, ebs.Token(0, "run", "store", "data"))
	require.NotEqual(t, one, ebs.Token(2, "run", "store", "data"))
	require.NotEqual(t, ebs.Token(2, "run"), ebs.Token(3, "run"))
	require.NotEqual(t, one, ebs.Token(1, "run", "store", "log"))
}

func TestDeleteEach_SomeRefused_OthersAreDeletedAndReported(t *testing.T) {
	t.Parallel()
	bad := errors.New("in use")
	var done []cluster.SnapshotID
	ids := []cluster.SnapshotID{"a", "b", "c", "d"}
	left := ebs.DeleteEach(t.Context(), ids, func(_ context.Context, id cluster.SnapshotID) error {
		if id == "b" {
			return bad
		}
		return nil
	}, func(id cluster.SnapshotID) { done = append(done, id) })
	require.Equal(t, map[cluster.SnapshotID]error{"b": bad}, left)
	require.ElementsMatch(t, []cluster.SnapshotID{"a", "c", "d"}, done)
	require.Empty(t, ebs.DeleteEach(t.Context(), []cluster.SnapshotID{}, nil, nil))
}
