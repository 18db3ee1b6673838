package lockset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

// place is an account with a sealed backup of three stores.
type place struct {
	server  *ebstest.Server
	client  *ebs.Client
	clock   timescale.Clock
	faults  *fault.Plan
	backups catalog.Catalog
	ids     []cluster.SnapshotID
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{clock: timescale.New(1), faults: &fault.Plan{}, backups: catalog.Catalog{Store: objstoretest.NewMemory(nil)}}
	rules := ebstest.QuickRules()
	rules.Invisible, rules.SnapshotBase = ebstest.Span{}, 0
	p.server = ebstest.New(ebstest.Config{Clock: p.clock, Faults: p.faults, Rules: rules, Seed: 1})
	require.NoError(t, p.server.Start())
	t.Cleanup(p.server.Close)
	var err error
	p.client, err = ebs.Open(t.Context(), ebs.Config{Region: p.server.Region(), Endpoint: p.server.URL(), Clock: p.clock})
	require.NoError(t, err)
	t.Cleanup(p.client.Close)
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	m := &manifest.Manifest{
		ID: "b", Run: "r", Tool: "v0", Region: p.server.Region(), BackupTS: cluster.MakeTS(start, 0), CreatedAt: start,
		Source: cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7, Version: "8.5.0"},
	}
	for id := range cluster.StoreID(3) {
		v := cluster.Volume{Role: cluster.RoleData, Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}}
		v.ID, err = p.server.CreateVolumeDirect(v.Zone, v.VolumeSpec, nil)
		require.NoError(t, err)
		instance := p.server.AddInstance(v.Zone)
		require.NoError(t, p.server.Attach(v.ID, instance))
		made, err := p.client.Cut(t.Context(), ebs.CutRequest{Instance: instance, Volumes: []cluster.VolumeID{v.ID}})
		require.NoError(t, err)
		p.ids = append(p.ids, made[0].ID)
		m.Source.Stores = append(m.Source.Stores, cluster.Store{ID: id + 1, Instance: instance, Volumes: []cluster.Volume{v}})
		m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(made[0].ID, id+1, v, start))
	}
	require.NoError(t, p.backups.Claim(t.Context(), catalog.Claim{ID: m.ID, Run: m.Run, Cluster: m.Source.Cluster, ClaimedAt: start}))
	require.NoError(t, p.backups.PutManifest(t.Context(), m))
	require.NoError(t, p.backups.Seal(t.Context(), m.ID, start, 1<<30))
	require.Eventually(t, func() bool {
		for _, id := range p.ids {
			if found, _, ok := p.server.Snapshot(id); !ok || found.State != ebs.SnapshotCompleted {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
	return p
}

func (p *place) days(n int) time.Time {
	return p.clock.Now().AddDate(0, 0, n).UTC().Truncate(time.Second)
}

func (p *place) lock(t *testing.T, mode string, until time.Time, coolOff time.Duration) (*lockset.Report, error) {
	t.Helper()
	return lockset.Lock(t.Context(), p.client, p.backups, lockset.Options{Backup: "b", Mode: mode, Until: until, CoolOff: coolOff})
}

// modes are the locks in EC2, by snapshot; "" without one.
func (p *place) modes(t *testing.T) []string {
	t.Helper()
	locks, err := p.client.SnapshotLocks(t.Context(), p.ids)
	require.NoError(t, err)
	out := make([]string, len(p.ids))
	for i, id := range p.ids {
		for _, l := range locks {
			if l.Snapshot == id && l.Holds() {
				out[i] = l.Mode
			}
		}
	}
	return out
}

func TestLock_TheWholeSetUntilOneDate_OnlyLonger(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	month := p.days(30)
	plan, err := lockset.Lock(t.Context(), p.client, p.backups, lockset.Options{
		Backup: "b", Mode: ebs.LockGovernance, Until: month, DryRun: true,
	})
	require.NoError(t, err)
	require.Equal(t, 3, plan.Count(lockset.ActionLock))
	require.False(t, plan.Final)
	require.Equal(t, []string{"", "", ""}, p.modes(t), "a dry run")

	report, err := p.lock(t, ebs.LockGovernance, month, 0)
	require.NoError(t, err)
	require.Equal(t, 3, report.Count(lockset.ActionLocked))
	for _, it := range report.Items {
		require.WithinDuration(t, month, it.ExpiresAt, 0)
		require.Equal(t, ebs.LockGovernance, it.Mode)
	}
	calls := p.faults.Calls("ec2.LockSnapshot")
	report, err = p.lock(t, ebs.LockGovernance, month.Add(-time.Hour), 0)
	require.NoError(t, err)
	require.Equal(t, 3, report.Count(lockset.ActionKeep), "they last long enough")
	require.Equal(t, calls, p.faults.Calls("ec2.LockSnapshot"))
	report, err = p.lock(t, ebs.LockGovernance, month.Add(time.Hour), 0)
	require.NoError(t, err)
	require.Equal(t, 3, report.Count(lockset.ActionLocked))
}

// What fails is named, nothing is deleted, what is locked stays so, and the same call finishes the set.
func TestLock_FailsInTheMiddle_IsFinishedByTheSameCall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	month := p.days(30)
	require.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.LockSnapshot", Position: fault.Before, Code: "UnauthorizedOperation", Nth: 2}))
	report, err := p.lock(t, ebs.LockGovernance, month, 0)
	require.Equal(t, failure.Partial, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1 of 3 snapshots are not locked (snap-")
	require.Contains(t, failure.HintOf(err), "run the same command again")
	require.Equal(t, 2, report.Count(lockset.ActionLocked))
	require.Equal(t, 1, report.Count(lockset.ActionFailed))
	require.Zero(t, p.faults.Calls("ec2.DeleteSnapshot"))
	require.Len(t, p.server.Snapshots(), 3)

	report, err = p.lock(t, ebs.LockGovernance, month, 0)
	require.NoError(t, err)
	require.Equal(t, 2, report.Count(lockset.ActionKeep))
	require.Equal(t, 1, report.Count(lockset.ActionLocked))

	other := newPlace(t)
	other.server.Deny("LockSnapshot")
	_, err = other.lock(t, ebs.LockGovernance, month, 0)
	require.Equal(t, failure.Denied, failure.KindOf(err), "nothing of it is locked: %v", err)
}

// A set of which one snapshot must not be changed is not changed at all.
func TestLock_WhatItRefuses_BeforeTheFirstChange(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		prepare func(*testing.T, *place)
		kind    failure.Kind
		text    string
	}{
		"one is locked for longer": {func(t *testing.T, p *place) {
			_, err := p.client.LockSnapshot(t.Context(), ebs.LockRequest{Snapshot: p.ids[2], Mode: ebs.LockGovernance, Until: p.days(60)})
			require.NoError(t, err)
		}, failure.Conflict, "never made shorter"},
		"one is gone": {func(t *testing.T, p *place) {
			require.NoError(t, p.client.DeleteSnapshot(t.Context(), p.ids[2]))
		}, failure.Corrupt, "it is gone"},
		"it is being deleted": {func(t *testing.T, p *place) {
			require.NoError(t, p.backups.Bury(t.Context(), "b", "r", "deleted", false))
		}, failure.NotFound, "being removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			row.prepare(t, p)
			before := p.faults.Calls("ec2.LockSnapshot")
			_, err := p.lock(t, ebs.LockCompliance, p.days(30), time.Hour)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.text)
			require.Equal(t, before, p.faults.Calls("ec2.LockSnapshot"))
		})
	}
}

// A deletion that begins after the backup was read is no success of the lock.
func TestLock_DeletedMeanwhile_IsNoSuccess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.LockSnapshot", Position: fault.Slow, Do: func() {
		_ = p.backups.Bury(t.Context(), "b", "r", "deleted", false)
	}}))
	_, err := p.lock(t, ebs.LockGovernance, p.days(30), 0)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "deleted meanwhile")
	report, err := lockset.Unlock(t.Context(), p.client, p.backups, "b", false)
	require.NoError(t, err, "the locks of what is left can be removed")
	require.Equal(t, 3, report.Count(lockset.ActionUnlocked))
}

// Final is what cannot be undone from its first moment on: a new lock without cool-off, or a longer one that has
// cooled off.
func TestLock_Final_OnlyIfItCannotBeUndone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	final := func(mode string, until time.Time, coolOff time.Duration) bool {
		t.Helper()
		plan, err := lockset.Lock(t.Context(), p.client, p.backups, lockset.Options{
			Backup: "b", Mode: mode, Until: until, CoolOff: coolOff, DryRun: true,
		})
		require.NoError(t, err)
		return plan.Final
	}
	require.False(t, final(ebs.LockGovernance, p.days(30), 0))
	require.False(t, final(ebs.LockCompliance, p.days(30), time.Hour))
	require.True(t, final(ebs.LockCompliance, p.days(30), 0))
	_, err := p.lock(t, ebs.LockCompliance, p.days(30), time.Hour)
	require.NoError(t, err)
	require.Equal(t, ebs.LockCoolingOff, p.modes(t)[0])
	require.False(t, final(ebs.LockCompliance, p.days(40), time.Hour), "it still cools off")
	p.clock.Advance(2 * time.Hour)
	require.True(t, final(ebs.LockCompliance, p.days(40), time.Hour), "it has cooled off, and does not a second time")
	require.False(t, final(ebs.LockCompliance, p.days(20), 0), "nothing is changed")

	report, err := lockset.Unlock(t.Context(), p.client, p.backups, "b", false)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "3 of 3 snapshots are locked in compliance mode, until ")
	require.Zero(t, report.Count(lockset.ActionUnlocked))
}

func TestUnlock_AllOrNone_AndAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := p.lock(t, ebs.LockGovernance, p.days(30), 0)
	require.NoError(t, err)
	_, err = p.client.LockSnapshot(t.Context(), ebs.LockRequest{Snapshot: p.ids[1], Mode: ebs.LockCompliance, Until: p.days(31), CoolOff: time.Hour})
	require.NoError(t, err)
	plan, err := lockset.Unlock(t.Context(), p.client, p.backups, "b", true)
	require.NoError(t, err)
	require.Equal(t, 3, plan.Count(lockset.ActionUnlock))
	require.Equal(t, ebs.LockGovernance, p.modes(t)[0], "a dry run")

	require.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.UnlockSnapshot", Position: fault.Before, Code: "UnauthorizedOperation", Nth: 3}))
	report, err := lockset.Unlock(t.Context(), p.client, p.backups, "b", false)
	require.Equal(t, failure.Partial, failure.KindOf(err), "%v", err)
	require.Equal(t, 2, report.Count(lockset.ActionUnlocked))
	report, err = lockset.Unlock(t.Context(), p.client, p.backups, "b", false)
	require.NoError(t, err)
	require.Equal(t, 1, report.Count(lockset.ActionUnlocked))
	require.Equal(t, []string{"", "", ""}, p.modes(t))

	_, err = p.lock(t, ebs.LockCompliance, p.days(30), time.Hour)
	require.NoError(t, err)
	p.clock.Advance(2 * time.Hour)
	before := p.faults.Calls("ec2.UnlockSnapshot")
	_, err = lockset.Unlock(t.Context(), p.client, p.backups, "b", false)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Equal(t, before, p.faults.Calls("ec2.UnlockSnapshot"), "they cannot be removed")
	_, err = lockset.Unlock(t.Context(), p.client, p.backups, "none", false)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}
