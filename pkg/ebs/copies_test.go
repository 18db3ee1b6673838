package ebs_test

import (
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

const guestAccount = "222222222222"

// newPair is the account of newAccount and one in another account and region, which it shares with or copies from.
func newPair(t *testing.T, change ...func(*ebstest.Config)) (home, away *account) {
	t.Helper()
	both := newWorld(t, []ebstest.Config{{Region: "us-west-2"}, {Region: "eu-west-1", Account: guestAccount}}, change...)
	return both[0], both[1]
}

func newWorld(t *testing.T, places []ebstest.Config, change ...func(*ebstest.Config)) []*account {
	t.Helper()
	clock := timescale.New(speed)
	var configs []ebstest.Config
	for _, at := range places {
		at.Clock, at.Faults, at.Rules, at.Seed = clock, &fault.Plan{}, ebstest.QuickRules(), 1
		for _, c := range change {
			c(&at)
		}
		configs = append(configs, at)
	}
	world := ebstest.NewWorld(configs...)
	require.NoError(t, world.Start())
	t.Cleanup(world.Close)
	var accounts []*account
	for n, server := range world.Servers() {
		client, err := ebs.Open(t.Context(), ebs.Config{Region: server.Region(), Endpoint: server.URL(), Clock: clock})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		accounts = append(accounts, &account{Client: client, server: server, faults: configs[n].Faults})
		t.Cleanup(func() { require.Empty(t, configs[n].Faults.Unreached(), "faults that never struck") })
	}
	return accounts
}

func copyRequest(from ebs.Snapshot) ebs.CopyRequest {
	return ebs.CopyRequest{Snapshot: from.ID, Region: "us-west-2", Tags: ebs.Tags{ebs.TagRun: "run-1"}}
}

func copyTags(from ebs.Snapshot) ebs.Tags {
	return ebs.Tags{ebs.TagRun: "run-1", ebs.TagCopiedFrom: string(from.ID)}
}

func TestCopySnapshot_OtherAccountAndRegion_PulledAndOwn(t *testing.T) {
	t.Parallel()
	home, away := newPair(t)
	from := home.source(t)
	require.True(t, failure.Is(away.ProbeCopy(t.Context(), copyRequest(from)), failure.NotFound), "it is not shared")
	require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	require.NoError(t, away.ProbeCopy(t.Context(), copyRequest(from)))
	require.Empty(t, away.server.Snapshots(), "a probe changes nothing")

	id, err := away.CopySnapshot(t.Context(), copyRequest(from))
	require.NoError(t, err)
	var copied ebs.Snapshot
	eventually(t, "completed", func() bool {
		found, err := away.FindSnapshots(t.Context(), copyTags(from))
		require.NoError(t, err)
		if len(found) == 1 {
			copied = found[0]
		}
		return copied.State == ebs.SnapshotCompleted
	})
	require.Equal(t, id, copied.ID)
	require.Equal(t, guestAccount, copied.Owner)
	require.Equal(t, from.SizeGiB, copied.SizeGiB)
	require.NoError(t, home.DeleteSnapshot(t.Context(), from.ID))
	require.NoError(t, away.DeleteSnapshot(t.Context(), id))
	require.Empty(t, away.server.Snapshots())
}

func TestCopySnapshot_AnswerLost_FoundByTagAndNotRepeated(t *testing.T) {
	t.Parallel()
	home, away := newPair(t)
	from := home.source(t)
	require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	away.fault(t, fault.Rule{Point: "ec2.CopySnapshot", Position: fault.After})
	_, err := away.CopySnapshot(t.Context(), copyRequest(from))
	require.True(t, ebs.MayHaveHappened(err), "%v", err)
	require.Equal(t, 1, away.faults.Calls("ec2.CopySnapshot"), "sent again although it may have happened")
	eventually(t, "found by tag", func() bool {
		found, err := away.FindSnapshots(t.Context(), copyTags(from))
		return err == nil && len(found) == 1
	})
}

func TestCopySnapshot_NoSlotIsFree_Waits(t *testing.T) {
	t.Parallel()
	home, away := newPair(t)
	from := home.source(t)
	require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	away.fault(t, fault.Rule{Point: "ec2.CopySnapshot", Position: fault.Before, Code: "ResourceLimitExceeded", Times: 2})
	_, err := away.CopySnapshot(t.Context(), copyRequest(from))
	require.NoError(t, err)
	require.Equal(t, 3, away.faults.Calls("ec2.CopySnapshot"))
}

func TestCopySnapshot_KeyIsNotUsable_ErrorWithItsMessage(t *testing.T) {
	t.Parallel()
	home, away := newPair(t)
	from := home.source(t)
	require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	const key = "arn:aws:kms:eu-west-1:222222222222:key/dr"
	away.server.SetKey(key, ebs.Key{State: ebs.KeyDisabled})
	req := copyRequest(from)
	req.KMSKey = key
	id, err := away.CopySnapshot(t.Context(), req)
	require.NoError(t, err, "EC2 looks at keys later")
	eventually(t, "in error", func() bool {
		found, err := away.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
		require.NoError(t, err)
		return len(found) == 1 && found[0].State == ebs.SnapshotError && found[0].Message == "Given key ID is not accessible"
	})
}

func TestCopySnapshot_CannotBe_Refused(t *testing.T) { //nolint:tparallel // the cases share an account
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.SnapshotBase = 100 * time.Hour })
	i, volumes := a.instance(t, 1)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	eventually(t, "visible", func() bool {
		found, err := a.DescribeSnapshots(t.Context(), []cluster.SnapshotID{made[0].ID})
		return err == nil && len(found) == 1
	})
	for name, test := range map[string]struct {
		change func(*ebs.CopyRequest)
		kind   failure.Kind
	}{
		"not completed": {func(*ebs.CopyRequest) {}, failure.Unready},
		"unknown":       {func(r *ebs.CopyRequest) { r.Snapshot = "snap-0123456789abcdef0" }, failure.NotFound},
		"no snapshot":   {func(r *ebs.CopyRequest) { r.Snapshot = "" }, failure.Usage},
		"no region":     {func(r *ebs.CopyRequest) { r.Region = "" }, failure.Usage},
		"odd duration":  {func(r *ebs.CopyRequest) { r.Within = 20 * time.Minute }, failure.Usage},
		"too long":      {func(r *ebs.CopyRequest) { r.Within = 49 * time.Hour }, failure.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			req := copyRequest(made[0])
			test.change(&req)
			_, err := a.CopySnapshot(t.Context(), req)
			require.Equal(t, test.kind, failure.KindOf(err), "%v", err)
			require.False(t, ebs.MayHaveHappened(err))
		})
	}
	require.Len(t, a.server.Snapshots(), 1)
}

func TestCopySnapshot_Within_AskedOfEC2(t *testing.T) {
	t.Parallel()
	home, away := newPair(t, func(c *ebstest.Config) { c.Rules.Copies.PairRate = 0 })
	from := home.source(t)
	require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	req := copyRequest(from)
	req.Within = 30 * time.Minute
	away.fault(t, fault.Rule{Point: "ec2.CopySnapshot", Position: fault.Before, Code: "InvalidParameterValue", Nth: 2})
	_, err := away.CopySnapshot(t.Context(), req)
	require.Equal(t, failure.Usage, failure.KindOf(err), "the first try has to be refused, as the pair has no throughput: %v", err)
	require.Equal(t, []ebstest.Refused{{Action: "CopySnapshot", Code: "ResourceLimitExceeded"}}, away.server.Refusals())
}

func TestShareSnapshot_OnAndOff_Idempotent(t *testing.T) {
	t.Parallel()
	home, away := newPair(t)
	from := home.source(t)
	home.fault(t, fault.Rule{Point: "ec2.ModifySnapshotAttribute", Position: fault.After})
	for range 2 {
		require.NoError(t, home.ShareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	}
	with, err := home.SharedWith(t.Context(), from.ID)
	require.NoError(t, err)
	require.Equal(t, []string{guestAccount}, with)
	for range 2 {
		require.NoError(t, home.UnshareSnapshot(t.Context(), from.ID, []string{guestAccount}))
	}
	with, err = home.SharedWith(t.Context(), from.ID)
	require.NoError(t, err)
	require.Empty(t, with)
	require.True(t, failure.Is(away.ProbeCopy(t.Context(), copyRequest(from)), failure.NotFound))
	require.NoError(t, home.UnshareSnapshot(t.Context(), "snap-0123456789abcdef0", []string{guestAccount}))
	err = home.ShareSnapshot(t.Context(), "snap-0123456789abcdef0", []string{guestAccount})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.Equal(t, failure.Usage, failure.KindOf(home.ShareSnapshot(t.Context(), from.ID, nil)))
}

func TestShareSnapshot_DefaultKey_ConflictWithHint(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.Invisible = ebstest.Span{} })
	i, volumes := a.instance(t, 1)
	require.NoError(t, a.server.Encrypt(volumes[0], "arn:aws:kms:us-west-2:123456789012:key/default"))
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	err = a.ShareSnapshot(t.Context(), made[0].ID, []string{guestAccount})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "copy it under a key of your own")
}
