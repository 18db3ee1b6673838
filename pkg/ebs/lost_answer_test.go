package ebs_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

func TestCut_AnswerLost_FoundByTagAndNotRepeated(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.Invisible = ebstest.Span{Least: 30 * time.Second, Most: 30 * time.Second}
	})
	i, volumes := a.instance(t, 2)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.After})
	tags := ebs.Tags{ebs.TagRun: "run-1", ebs.TagStore: "4"}

	_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: tags})
	require.Equal(t, failure.Unknown, failure.KindOf(err), "%v", err)
	require.Len(t, a.server.MutatingCalls(), 1, "sent again although it may have happened")

	found, err := a.FindSnapshots(t.Context(), tags)
	require.NoError(t, err)
	require.Empty(t, found, "visible too early")
	eventually(t, "found by tag", func() bool {
		found, err = a.FindSnapshots(t.Context(), tags)
		return err == nil && len(found) == 2
	})
	require.ElementsMatch(t, volumes, []cluster.VolumeID{found[0].Volume, found[1].Volume})
}

func TestCut_Stalled_EndsWithDeadlineAndNothingMade(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Stall})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := a.Cut(ctx, ebs.CutRequest{Instance: i, Volumes: volumes})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, a.server.Snapshots())
}

func TestCut_InternalError_NotRepeated(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before})
	_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.Equal(t, failure.Unknown, failure.KindOf(err), "%v", err)
	require.Len(t, a.server.MutatingCalls(), 1)
}

func TestCut_LookupFailsForAWhile_StillCuts(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.DescribeInstances", Position: fault.Before, Times: 3})
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	require.Len(t, made, 1)
}

func TestCut_Throttled_RepeatedUntilDone(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"RequestLimitExceeded", "SnapshotCreationPerVolumeRateExceeded", "PendingSnapshotLimitExceeded", "ConcurrentSnapshotLimitExceeded"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			i, volumes := a.instance(t, 1)
			a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: code, Times: 3})
			made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
			require.NoError(t, err)
			require.Len(t, made, 1)
			require.Len(t, a.server.MutatingCalls(), 4)
		})
	}
}

func TestCut_ThrottledForEver_LimitedAtDeadline(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "PendingSnapshotLimitExceeded", Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // long enough for a first answer
	defer cancel()
	_, err := a.Cut(ctx, ebs.CutRequest{Instance: i, Volumes: volumes})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PendingSnapshotLimitExceeded")
	require.NotEmpty(t, failure.HintOf(err))
}

// The time ends in a call without a hint: the hint is that of the try before.
func TestCut_ThrottledThenNoAnswer_KeepsTheHint(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "PendingSnapshotLimitExceeded", Times: -1})
	a.fault(t, fault.Rule{Point: "ec2.DescribeInstances", Position: fault.Stall, Nth: 2, Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := a.Cut(ctx, ebs.CutRequest{Instance: i, Volumes: volumes})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PendingSnapshotLimitExceeded")
	require.NotEmpty(t, failure.HintOf(err))
}

func TestCut_SecondWithinSpacing_WaitsIt(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	for range 2 {
		_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
		require.NoError(t, err)
	}
	cuts := a.server.Cuts()
	require.Len(t, cuts, 2)
	require.GreaterOrEqual(t, cuts[1].At.Sub(cuts[0].At), 15*time.Second)
}

// source is a completed snapshot of a volume.
func (a *account) source(t *testing.T) ebs.Snapshot {
	t.Helper()
	i, volumes := a.instance(t, 1)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	return a.await(t, made)[0]
}

// await waits until snapshots are completed.
func (a *account) await(t *testing.T, made []ebs.Snapshot) []ebs.Snapshot {
	t.Helper()
	ids := make([]cluster.SnapshotID, len(made))
	for n, p := range made {
		ids[n] = p.ID
	}
	var found []ebs.Snapshot
	eventually(t, "snapshots complete", func() bool {
		var err error
		found, err = a.DescribeSnapshots(t.Context(), ids)
		done := 0
		for _, p := range found {
			if p.State == ebs.SnapshotCompleted {
				done++
			}
		}
		return err == nil && done == len(ids)
	})
	return found
}

func request(from ebs.Snapshot, token string) ebs.VolumeRequest {
	return ebs.VolumeRequest{
		Token: token, Snapshot: from.ID, Zone: zone, Tags: ebs.Tags{ebs.TagRun: "run-1", ebs.TagSnapshot: string(from.ID)},
		Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 10},
	}
}

func (a *account) volumesFrom(id cluster.SnapshotID) []ebs.Volume {
	var out []ebs.Volume
	for _, v := range a.server.Volumes() {
		if v.Snapshot == id {
			out = append(out, v)
		}
	}
	return out
}

func TestCreateVolume_AnswerLost_OneVolume(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	from := a.source(t)
	a.fault(t, fault.Rule{Point: "ec2.CreateVolume", Position: fault.After, Times: 2})
	v, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	again, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	require.Equal(t, v.ID, again.ID)
	require.Len(t, a.volumesFrom(from.ID), 1)
}

func TestCreateVolume_AnswerLostThenQuota_FoundByTag(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.StorageGiB = map[string]int64{"gp3": 40} // the boot volume, the source and one more
		c.Rules.Invisible = ebstest.Span{Least: 10 * time.Second, Most: 10 * time.Second}
	})
	from := a.source(t)
	a.fault(t, fault.Rule{Point: "ec2.CreateVolume", Position: fault.After})
	v, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	require.Len(t, a.volumesFrom(from.ID), 1)
	require.Equal(t, a.volumesFrom(from.ID)[0].ID, v.ID)

	other := request(from, "other")
	other.Tags = ebs.Tags{ebs.TagRun: "run-2"}
	_, err = a.CreateVolume(t.Context(), other)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "VolumeLimitExceeded")
}

func TestDelete_NotVisibleYet_WaitsInsteadOfLeaking(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.Invisible = ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
	})
	i, volumes := a.instance(t, 1)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	require.NoError(t, a.DeleteSnapshot(t.Context(), made[0].ID))
	require.Empty(t, a.server.Snapshots())
}

func TestDeleteVolume_StillCreating_Waits(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.Creating = ebstest.Span{Least: 30 * time.Second, Most: 30 * time.Second}
	})
	from := a.source(t)
	v, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	require.NoError(t, a.DeleteVolume(t.Context(), v.ID))
	require.Empty(t, a.volumesFrom(from.ID))
}

func TestDelete_AnswerLost_Succeeds(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible = ebstest.Span{} })
	from := a.source(t)
	v, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	a.fault(t, fault.Rule{Point: "ec2.Delete*", Position: fault.After, Times: 2})
	require.NoError(t, a.DeleteVolume(t.Context(), v.ID))
	require.NoError(t, a.DeleteSnapshot(t.Context(), from.ID))
	require.Empty(t, a.volumesFrom(from.ID))
	require.Empty(t, a.server.Snapshots())
}

func TestDeleteVolume_Twice_SecondDoesNotWait(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible, c.Rules.Creating = ebstest.Span{}, ebstest.Span{} })
	from := a.source(t)
	v, err := a.CreateVolume(t.Context(), request(from, "token"))
	require.NoError(t, err)
	require.NoError(t, a.DeleteVolume(t.Context(), v.ID))
	require.NoError(t, a.DeleteVolume(t.Context(), v.ID))
	require.Equal(t, 2, a.faults.Calls("ec2.DeleteVolume"))
}

// late is a stand-in whose next answer reaches the process minutes later, as if that had been suspended meanwhile.
func late(t *testing.T, a *account, clock timescale.Clock) (*ebs.Client, *atomic.Bool) {
	t.Helper()
	to, err := url.Parse(a.server.URL())
	require.NoError(t, err)
	var next atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(*http.Response) error {
		if next.CompareAndSwap(true, false) {
			clock.Advance(2 * ebs.VisibleWithin)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: server.URL, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, &next
}

// "Not found" of what was just made is not "gone", however late that answer arrives: a deletion asks again, and what
// does not ask again fails.
func TestNewSnapshot_NotFoundArrivesLate_IsNotGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(context.Context, *ebs.Client, cluster.SnapshotID) error
		left int // it fails if it is 1
	}{
		"delete": {func(ctx context.Context, c *ebs.Client, id cluster.SnapshotID) error {
			return c.DeleteSnapshot(ctx, id)
		}, 0},
		"unshare": {func(ctx context.Context, c *ebs.Client, id cluster.SnapshotID) error {
			return c.UnshareSnapshot(ctx, id, []string{"222222222222"})
		}, 1},
		"unlock": {func(ctx context.Context, c *ebs.Client, id cluster.SnapshotID) error {
			return c.UnlockSnapshot(ctx, id)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := timescale.New(speed)
			a := newAccount(t, func(c *ebstest.Config) {
				c.Clock = clock
				c.Rules.Invisible = ebstest.Span{Least: 50 * time.Second, Most: 50 * time.Second}
			})
			i, volumes := a.instance(t, 1)
			client, next := late(t, a, clock)
			snaps, err := client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: ebs.Tags{ebs.TagRun: "run-1"}})
			require.NoError(t, err)
			next.Store(true)
			err = c.do(t.Context(), client, snaps[0].ID)
			require.Equal(t, c.left == 1, failure.Is(err, failure.NotFound), "%v", err)
			require.Equal(t, c.left == 1, err != nil)
			require.False(t, next.Load())
			require.Len(t, a.server.Snapshots(), c.left)
		})
	}
}
