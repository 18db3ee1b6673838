package ebs_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

func TestAttachments_ManyInstances_TwoCallsAndCutsAskNothingMore(t *testing.T) {
	t.Parallel()
	const instances = 210 // more than EC2 takes in one filter
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.PendingInAccount = 1000 })
	volumes := map[cluster.InstanceID][]cluster.VolumeID{}
	var ids []cluster.InstanceID
	for range instances {
		i, v := a.instance(t, 2)
		ids, volumes[i] = append(ids, i), v
	}
	attached, err := a.Attachments(t.Context(), append(ids, ids[0]))
	require.NoError(t, err)
	require.Len(t, attached, instances)
	require.Equal(t, 2, a.faults.Calls("ec2.DescribeInstances"))
	for _, id := range ids[:20] {
		require.Len(t, attached[id], 3, "two and the boot volume")
		made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: id, Volumes: volumes[id], Attached: attached})
		require.NoError(t, err)
		require.Len(t, made, 2)
	}
	require.Equal(t, 2, a.faults.Calls("ec2.DescribeInstances"), "a cut described them again")

	_, err = a.Attachments(t.Context(), append(ids, "i-0fffffffffffffff0"))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "i-0fffffffffffffff0")
	_, err = a.Attachments(t.Context(), nil)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestCut_ExcludedVolumeGoneSinceTheLook_LooksAgainAndCuts(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 3)
	attached, err := a.Attachments(t.Context(), []cluster.InstanceID{i})
	require.NoError(t, err)
	require.NoError(t, a.server.Detach(volumes[2]))
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes[:2], Attached: attached})
	require.NoError(t, err)
	require.Len(t, made, 2)
	require.Equal(t, 2, a.faults.Calls("ec2.DescribeInstances"))
}

func TestCut_VolumeComeSinceTheLook_ConflictWithAllThatWasMade(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 2)
	attached, err := a.Attachments(t.Context(), []cluster.InstanceID{i})
	require.NoError(t, err)
	late, err := a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
	require.NoError(t, err)
	require.NoError(t, a.server.Attach(late, i))
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Attached: attached})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, string(late))
	require.False(t, ebs.MayHaveHappened(err), "what was made is known")
	require.Len(t, made, 3, "so that the caller can delete them")
	require.Len(t, a.server.Snapshots(), 3)
}

func TestMayHaveHappened_OnlyIfTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule fault.Rule
		want bool
	}{
		"answer lost":      {fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.After}, true},
		"internal error":   {fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before}, true},
		"limit":            {fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "SnapshotLimitExceeded"}, false},
		"denied":           {fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "UnauthorizedOperation"}, false},
		"unheard of":       {fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "NeverHeardOf"}, false},
		"describe refused": {fault.Rule{Point: "ec2.DescribeInstances", Position: fault.Before, Code: "UnauthorizedOperation"}, false},
		"describe lost":    {fault.Rule{Point: "ec2.DescribeInstances", Position: fault.After, Times: 8}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			i, volumes := a.instance(t, 1)
			a.fault(t, test.rule)
			_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
			require.Error(t, err)
			require.Equal(t, test.want, ebs.MayHaveHappened(err), "%v", err)
		})
	}
}

func TestQuotas_StandIn_AllPagesRead(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.StorageGiB = map[string]int64{"gp3": 51200, "io2": 20480, "io1": 1536}
		c.Rules.IOPS = map[string]int64{"io2": 100_000}
		c.Rules.PendingInAccount = 77
	})
	q, err := a.Quotas(t.Context())
	require.NoError(t, err)
	require.Equal(t, ebs.AccountQuotas{
		StorageGiB: map[string]int64{"gp3": 51200, "io2": 20480, "io1": 1536}, IOPS: map[string]int64{"io2": 100_000},
		PendingSnapshots: 77, Snapshots: 100_000, FastRestores: 5, CopyRate: 2000 << 20,
	}, q)
	a.server.Deny("ListServiceQuotas")
	_, err = a.Quotas(t.Context())
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "servicequotas:ListServiceQuotas")
}

func TestUsage_AllVolumes_AddedUpByType(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.instance(t, 2) // two of 10 GiB and a boot volume
	_, err := a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "io2", SizeGiB: 100, IOPS: 5000}, nil)
	require.NoError(t, err)
	used, err := a.Usage(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(100), used.StorageGiB["io2"])
	require.Equal(t, int64(5000), used.IOPS["io2"])
	var want int64
	for _, v := range a.server.Volumes() {
		if v.Spec.Type == "gp3" {
			want += v.Spec.SizeGiB
		}
	}
	require.Equal(t, want, used.StorageGiB["gp3"])
	require.Greater(t, want, int64(20))
}

func TestMaxIOPS_DryRun_IsTheZonesLimit(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.MaxIOPS = map[string]int64{"gp3": 16000} })
	most, err := a.MaxIOPS(t.Context(), "gp3", zone)
	require.NoError(t, err)
	require.Equal(t, int64(16000), most)
	most, err = a.MaxIOPS(t.Context(), "io2", zone)
	require.NoError(t, err)
	require.Equal(t, int64(256_000), most)
	require.Empty(t, a.server.Volumes())
	_, err = a.MaxIOPS(t.Context(), "gp2", zone)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	_, err = a.MaxIOPS(t.Context(), "gp3", "eu-west-1a")
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	a.server.Deny("CreateVolume")
	_, err = a.MaxIOPS(t.Context(), "gp3", zone)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}

func TestZoneIDs_StandIn_OneEach(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	ids, err := a.ZoneIDs(t.Context())
	require.NoError(t, err)
	zones, err := a.Zones(t.Context())
	require.NoError(t, err)
	require.Len(t, ids, len(zones))
	for _, z := range zones {
		require.NotEmpty(t, ids[z])
	}
}

func TestInventory_RunsOfAll_OthersLeftOut(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible = ebstest.Span{} })
	for _, tags := range []ebs.Tags{{ebs.TagRun: "one"}, {ebs.TagRun: "two"}, {"other": "x"}} {
		i, volumes := a.instance(t, 1)
		_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: tags})
		require.NoError(t, err)
		_, err = a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, tags)
		require.NoError(t, err)
	}
	snapshots, err := a.AllSnapshots(t.Context())
	require.NoError(t, err)
	require.Len(t, snapshots, 2)
	volumes, err := a.AllVolumes(t.Context())
	require.NoError(t, err)
	require.Len(t, volumes, 2)
	for _, v := range volumes {
		require.WithinDuration(t, time.Now(), v.CreatedAt, 24*time.Hour)
	}
}

func TestSnapshotLocks_Locked_IsListedAndDeleteRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible = ebstest.Span{} })
	locked, free := a.source(t), a.source(t)
	answer, err := http.PostForm(a.server.URL(), url.Values{ //nolint:noctx // a stand-in on loopback
		"Action": {"LockSnapshot"}, "SnapshotId": {string(locked.ID)}, "LockMode": {"governance"}, "LockDuration": {"1"},
	})
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	locks, err := a.SnapshotLocks(t.Context(), []cluster.SnapshotID{locked.ID, free.ID, "snap-0fffffffffffffff0"})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Equal(t, locked.ID, locks[0].Snapshot)
	require.True(t, locks[0].Holds())
	require.False(t, locks[0].ExpiresAt.IsZero())
	err = a.DeleteSnapshot(t.Context(), locked.ID)
	require.Error(t, err)
	require.Contains(t, []failure.Kind{failure.Conflict, failure.Denied}, failure.KindOf(err), "%v", err)
	require.Len(t, a.server.Snapshots(), 2)
	none, err := a.SnapshotLocks(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// TestSnapshotLocks_DeletedWhileTheyAreAsked_AreLeftOut: two commands may delete one backup.
func TestSnapshotLocks_DeletedWhileTheyAreAsked_AreLeftOut(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible = ebstest.Span{} })
	goes, stays, locked := a.source(t), a.source(t), a.source(t)
	_, err := a.LockSnapshot(t.Context(), ebs.LockRequest{
		Snapshot: locked.ID, Mode: ebs.LockGovernance, Until: time.Now().AddDate(1, 0, 0),
	})
	require.NoError(t, err)
	require.NoError(t, a.faults.Add(fault.Rule{
		Point: "ec2.DescribeLockedSnapshots", Position: fault.Slow, Nth: 2,
		Do: func() { assert.NoError(t, a.DeleteSnapshot(t.Context(), goes.ID)) },
	}))
	locks, err := a.SnapshotLocks(t.Context(), []cluster.SnapshotID{goes.ID, stays.ID, locked.ID, "snap-0fffffffffffffff0"})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Equal(t, locked.ID, locks[0].Snapshot)
}

func TestSnapshotsInProgress_PendingAndFailed_CountedByVolume(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.SnapshotBase, c.Rules.SnapshotSpacing, c.Rules.Invisible = time.Hour, 0, ebstest.Span{}
	})
	i, volumes := a.instance(t, 2)
	other, otherVolumes := a.instance(t, 1)
	for n := range 3 {
		made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes[:1+n%2]})
		require.NoError(t, err)
		if n == 0 {
			require.NoError(t, a.server.FailSnapshot(made[0].ID))
		}
	}
	_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: other, Volumes: otherVolumes})
	require.NoError(t, err)
	count, err := a.SnapshotsInProgress(t.Context(), volumes)
	require.NoError(t, err)
	require.Equal(t, map[cluster.VolumeID]int{volumes[0]: 3, volumes[1]: 1}, count)
}

func TestNewestSnapshots_OfTheLastMinutes_ByVolume(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.SnapshotSpacing, c.Rules.Invisible = 0, ebstest.Span{}
		c.Clock = timescale.New(1) // EC2's time is near this machine's, by which the client asks
	})
	i, volumes := a.instance(t, 3)
	var last []ebs.Snapshot
	for range 2 {
		var err error
		last, err = a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes[:2]})
		require.NoError(t, err)
	}
	newest, err := a.NewestSnapshots(t.Context(), volumes, last[0].StartedAt.Add(-time.Minute))
	require.NoError(t, err)
	require.Len(t, newest, 2, "the third has none")
	for _, snap := range last {
		require.WithinDuration(t, snap.StartedAt, newest[snap.Volume], time.Second)
	}
	newest, err = a.NewestSnapshots(t.Context(), volumes, last[0].StartedAt.Add(time.Minute))
	require.NoError(t, err)
	require.Empty(t, newest, "none since")
}

func TestStates_Outcome_DecidedForEach(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for state, want := range map[ebs.SnapshotState]ebs.SnapshotOutcome{
		ebs.SnapshotPending: ebs.SnapshotWaits, ebs.SnapshotCompleted: ebs.SnapshotDone, ebs.SnapshotError: ebs.SnapshotFailed,
		ebs.SnapshotRecoverable: ebs.SnapshotFailed, ebs.SnapshotRecovering: ebs.SnapshotWaits,
		"weird": ebs.SnapshotStrange, "": ebs.SnapshotStrange,
	} {
		t.Run(string(state), func(t *testing.T) {
			require.Equal(t, want, state.Outcome(), state)
		})
	}
	for state, want := range map[ebs.VolumeState]ebs.VolumeOutcome{
		ebs.VolumeCreating: ebs.VolumeWaits, ebs.VolumeAvailable: ebs.VolumeUsable, ebs.VolumeInUse: ebs.VolumeUsable,
		ebs.VolumeError: ebs.VolumeFailed, ebs.VolumeDeleting: ebs.VolumeFailed, ebs.VolumeDeleted: ebs.VolumeFailed,
		"weird": ebs.VolumeStrange,
	} {
		t.Run(string(state), func(t *testing.T) {
			require.Equal(t, want, state.Outcome(), state)
		})
	}
}

// With a list of keys, KMS has these, the default one, and what a test has named to it.
func TestDescribeKey_KeyThatIsNot_NotFound(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Keys = []string{"alias/own"} })
	_, volumes := a.instance(t, 1)
	require.NoError(t, a.server.Encrypt(volumes[0], "of-a-volume"))
	a.server.SetKey("set", ebs.Key{State: ebs.KeyEnabled})
	for key, want := range map[string]failure.Kind{
		"alias/own": failure.Unknown, "alias/aws/ebs": failure.Unknown, "arn:aws:kms:us-west-2:123456789012:key/default": failure.Unknown,
		"of-a-volume": failure.Unknown, "set": failure.Unknown, "alias/typo": failure.NotFound,
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			_, err := a.DescribeKey(t.Context(), key)
			require.Equal(t, want == failure.Unknown, err == nil, "%v", err)
			require.Equal(t, want, failure.KindOf(err))
		})
	}
}

func TestDefaultKey_AsTheAccountChose(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	key, err := a.DefaultKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, ebs.DefaultKey{Name: "alias/aws/ebs"}, key)
	a.server.SetDefaultKey("alias/own", true)
	key, err = a.DefaultKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, ebs.DefaultKey{Name: "alias/own", Always: true}, key)
	a.server.Deny("GetEbsDefaultKmsKeyId")
	_, err = a.DefaultKey(t.Context())
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "ec2:GetEbsDefaultKmsKeyId")
}

func TestDescribeKey_StateAndKinds(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	deleted := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	a.server.SetKey("key-1", ebs.Key{State: ebs.KeyPendingDeletion, DeletedAt: deleted})
	a.server.DeleteKey("key-2")
	key, err := a.DescribeKey(t.Context(), "key-1")
	require.NoError(t, err)
	require.Equal(t, ebs.KeyPendingDeletion, key.State)
	require.WithinDuration(t, deleted, key.DeletedAt, 0)
	key, err = a.DescribeKey(t.Context(), "alias/aws/ebs")
	require.NoError(t, err)
	own := "arn:aws:kms:us-west-2:123456789012:key/default"
	require.Equal(t, ebs.Key{ARN: own, State: ebs.KeyEnabled}, key)
	_, err = a.DescribeKey(t.Context(), "key-2")
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	a.server.RefuseKey("key-3")
	key, err = a.DescribeKey(t.Context(), "key-3")
	require.NoError(t, err)
	require.Equal(t, ebs.KeyEnabled, key.State, "who may not use a key may still describe it")
	a.server.Deny("DescribeKey")
	_, err = a.DescribeKey(t.Context(), "key-1")
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "kms:DescribeKey")
}
