package ebs_test

import (
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

// lockable is an account at real speed whose clock can jump, and a completed snapshot in it.
func lockable(t *testing.T) (a *account, id cluster.SnapshotID, clock timescale.Clock) {
	t.Helper()
	clock = timescale.New(1)
	a = newAccount(t, func(c *ebstest.Config) {
		c.Clock, c.Rules.Invisible, c.Rules.SnapshotBase = clock, ebstest.Span{}, 0
	})
	return a, a.source(t).ID, clock
}

// A request that waits, here for EC2's rate, is not sent once someone else has made the lock longer.
func TestLockSnapshot_MadeLongerMeanwhile_IsNotMadeShorter(t *testing.T) {
	t.Parallel()
	a, id, clock := lockable(t)
	_, err := a.lock(t, id, ebs.LockGovernance, days(clock, 10), 0)
	require.NoError(t, err)
	longer := days(clock, 60)
	a.fault(t, fault.Rule{Point: "ec2.LockSnapshot", Position: fault.Before, Code: "RequestLimitExceeded", Do: func() {
		_, err := a.lock(t, id, ebs.LockGovernance, longer, 0)
		assert.NoError(t, err)
	}})
	lock, err := a.lock(t, id, ebs.LockGovernance, days(clock, 30), 0)
	require.NoError(t, err)
	require.WithinDuration(t, longer, lock.ExpiresAt, 0)
	locks, err := a.SnapshotLocks(t.Context(), []cluster.SnapshotID{id})
	require.NoError(t, err)
	require.WithinDuration(t, longer, locks[0].ExpiresAt, 0)
}

// An answer about the lock that comes late, as to a process that was suspended, is not believed: another may have made the
// lock longer since.
func TestLockSnapshot_AnswerIsLate_AskedAgain(t *testing.T) {
	t.Parallel()
	a, id, clock := lockable(t)
	a.fault(t, fault.Rule{Point: "ec2.DescribeLockedSnapshots", Position: fault.Slow, Delay: 5200 * time.Millisecond})
	_, err := a.lock(t, id, ebs.LockGovernance, days(clock, 10), 0)
	require.NoError(t, err)
	require.Equal(t, 2, a.faults.Calls("ec2.DescribeLockedSnapshots"))
}

func days(clock timescale.Clock, n int) time.Time {
	return clock.Now().AddDate(0, 0, n).UTC().Truncate(time.Millisecond)
}

func (a *account) lock(t *testing.T, id cluster.SnapshotID, mode string, until time.Time, coolOff time.Duration) (ebs.SnapshotLock, error) {
	t.Helper()
	return a.LockSnapshot(t.Context(), ebs.LockRequest{Snapshot: id, Mode: mode, Until: until, CoolOff: coolOff})
}

func TestLockSnapshot_Governance_OnlyLonger(t *testing.T) {
	t.Parallel()
	a, id, clock := lockable(t)
	month := days(clock, 30)
	a.fault(t, fault.Rule{Point: "ec2.LockSnapshot", Position: fault.After})
	lock, err := a.lock(t, id, ebs.LockGovernance, month, 0)
	require.NoError(t, err)
	require.True(t, lock.Holds())
	require.WithinDuration(t, month, lock.ExpiresAt, 0)
	calls := a.faults.Calls("ec2.LockSnapshot")

	for _, until := range []time.Time{month, days(clock, 3)} {
		lock, err = a.lock(t, id, ebs.LockGovernance, until, 0)
		require.NoError(t, err, "it lasts long enough")
		require.WithinDuration(t, month, lock.ExpiresAt, 0)
	}
	_, err = a.lock(t, id, ebs.LockCompliance, days(clock, 3), 0)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
	require.Equal(t, calls, a.faults.Calls("ec2.LockSnapshot"), "nothing that would make it shorter is sent")

	lock, err = a.lock(t, id, ebs.LockGovernance, days(clock, 60), 0)
	require.NoError(t, err)
	require.WithinDuration(t, days(clock, 60), lock.ExpiresAt, time.Minute)
	require.Equal(t, failure.Conflict, failure.KindOf(a.DeleteSnapshot(t.Context(), id)))
	clock.Advance(61 * 24 * time.Hour)
	require.NoError(t, a.DeleteSnapshot(t.Context(), id))
}

func TestLockSnapshot_Compliance_CoolsOffThenStays(t *testing.T) {
	t.Parallel()
	a, id, clock := lockable(t)
	lock, err := a.lock(t, id, ebs.LockCompliance, days(clock, 30), 2*time.Hour)
	require.NoError(t, err)
	require.Equal(t, ebs.LockCoolingOff, lock.Mode)
	require.WithinDuration(t, clock.Now().Add(2*time.Hour), lock.CooledOffAt, time.Minute)
	require.NoError(t, a.UnlockSnapshot(t.Context(), id), "within the cooling-off period")
	_, err = a.lock(t, id, ebs.LockCompliance, days(clock, 30), 2*time.Hour)
	require.NoError(t, err)
	clock.Advance(3 * time.Hour)

	err = a.UnlockSnapshot(t.Context(), id)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
	_, err = a.lock(t, id, ebs.LockGovernance, days(clock, 60), 0)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	lock, err = a.lock(t, id, ebs.LockGovernance, days(clock, 20), 0)
	require.NoError(t, err, "it is locked more strongly, and for longer")
	require.Equal(t, ebs.LockCompliance, lock.Mode)
	lock, err = a.lock(t, id, ebs.LockCompliance, days(clock, 60), 2*time.Hour)
	require.NoError(t, err, "no second cooling-off is asked for, which EC2 would refuse")
	require.Equal(t, ebs.LockCompliance, lock.Mode)
	require.WithinDuration(t, days(clock, 60), lock.ExpiresAt, time.Minute)
}

func TestLockSnapshot_CannotBe_Refused(t *testing.T) { //nolint:tparallel // the cases share an account
	t.Parallel()
	a, id, clock := lockable(t)
	for name, test := range map[string]struct {
		req  ebs.LockRequest
		kind failure.Kind
	}{
		"no snapshot":                {ebs.LockRequest{Mode: ebs.LockGovernance, Until: days(clock, 1)}, failure.Usage},
		"no mode":                    {ebs.LockRequest{Snapshot: id, Until: days(clock, 1)}, failure.Usage},
		"no end":                     {ebs.LockRequest{Snapshot: id, Mode: ebs.LockGovernance}, failure.Usage},
		"end has passed":             {ebs.LockRequest{Snapshot: id, Mode: ebs.LockGovernance, Until: days(clock, -1)}, failure.Usage},
		"governance does not cool":   {ebs.LockRequest{Snapshot: id, Mode: ebs.LockGovernance, Until: days(clock, 1), CoolOff: time.Hour}, failure.Usage},
		"cooling off takes too long": {ebs.LockRequest{Snapshot: id, Mode: ebs.LockCompliance, Until: days(clock, 1), CoolOff: 73 * time.Hour}, failure.Usage},
		"cooling off in minutes":     {ebs.LockRequest{Snapshot: id, Mode: ebs.LockCompliance, Until: days(clock, 1), CoolOff: time.Minute}, failure.Usage},
		"unknown":                    {ebs.LockRequest{Snapshot: "snap-0123456789abcdef0", Mode: ebs.LockGovernance, Until: days(clock, 1)}, failure.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.LockSnapshot(t.Context(), test.req)
			require.Equal(t, test.kind, failure.KindOf(err), "%v", err)
		})
	}
	locks, err := a.SnapshotLocks(t.Context(), []cluster.SnapshotID{id})
	require.NoError(t, err)
	require.Empty(t, locks)
}

func TestUnlockSnapshot_NotLocked_Succeeds(t *testing.T) {
	t.Parallel()
	a, id, clock := lockable(t)
	require.NoError(t, a.UnlockSnapshot(t.Context(), id))
	require.NoError(t, a.UnlockSnapshot(t.Context(), "snap-0123456789abcdef0"))
	_, err := a.lock(t, id, ebs.LockGovernance, days(clock, 1), 0)
	require.NoError(t, err)
	a.fault(t, fault.Rule{Point: "ec2.UnlockSnapshot", Position: fault.After})
	require.NoError(t, a.UnlockSnapshot(t.Context(), id))
	locks, err := a.SnapshotLocks(t.Context(), []cluster.SnapshotID{id})
	require.NoError(t, err)
	require.Empty(t, locks)
}
