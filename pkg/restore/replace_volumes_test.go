package restore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// replacing is an EC2 that makes none of the six replacements before all are asked for: one after the other, none is.
// What happens to all volumes at once has happened before it shows any of them.
type replacing struct {
	restore.EBS
	happened func(ctx context.Context, ids []cluster.VolumeID) bool
	before   func() // before the first volume is asked for; nil does nothing
	first    sync.Once
	calls    atomic.Int64
	together chan struct{}
}

func (r *replacing) CreateVolume(ctx context.Context, request ebs.VolumeRequest) (ebs.Volume, error) {
	n := r.calls.Add(1)
	if n == 1 && r.before != nil {
		r.before()
	}
	if n == 12 {
		close(r.together)
	}
	if n > 6 {
		select {
		case <-r.together:
		case <-ctx.Done():
			return ebs.Volume{}, ctx.Err()
		}
	}
	return r.EBS.CreateVolume(ctx, request)
}

func (r *replacing) DescribeVolumes(ctx context.Context, ids []cluster.VolumeID) ([]ebs.Volume, error) {
	r.first.Do(func() {
		for !r.happened(ctx, ids) && wait.For(ctx, 20*time.Millisecond) == nil {
		}
	})
	return r.EBS.DescribeVolumes(ctx, ids)
}

// replaces lets the restores of a lab go through a new replacing EC2, whose clock is fast: it finds out soon that a token
// is burned.
func (l *lab) replaces(t *testing.T, happened func(ctx context.Context, ids []cluster.VolumeID) bool) *replacing {
	t.Helper()
	fast, err := ebs.Open(within(t), ebs.Config{Region: testbed.Region, Endpoint: l.bed.AWS(), Clock: timescale.New(20)})
	require.NoError(t, err)
	t.Cleanup(fast.Close)
	r := &replacing{EBS: fast, happened: happened, together: make(chan struct{})}
	l.wrap = func(restore.EBS) restore.EBS { return r }
	return r
}

// vanished reports whether EC2 has lost all volumes of restores.
func (l *lab) vanished(context.Context, []cluster.VolumeID) bool { return len(l.volumes()) == 0 }

// All volumes go to error at once, and none has a key that could be why: they are replaced in one round, all at the same
// time, the restore ends well, and no failed volume stays.
func TestAllVolumesFailAtOnce_AreReplacedInOneRound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var failed []cluster.VolumeID
	ec2 := l.replaces(t, func(ctx context.Context, ids []cluster.VolumeID) bool {
		if shown, err := l.ebs.DescribeVolumes(ctx, ids); err != nil || len(shown) < 6 {
			return false // EC2 hides a new volume for a moment
		}
		for _, id := range ids {
			if l.bed.EC2.FailVolume(id) == nil {
				failed = append(failed, id)
			}
		}
		return true
	})
	result, err := l.restore(within(t), t, nil, nil)
	require.NoError(t, err)
	require.Len(t, failed, 6)
	require.EqualValues(t, 12, ec2.calls.Load(), "one round: each volume is asked for twice")
	require.Len(t, result.Volumes, 6)
	for _, v := range l.volumes() {
		if v.State.Outcome() == ebs.VolumeFailed {
			require.NotEqual(t, ebs.VolumeError, v.State, "%s failed and stays", v.ID)
			continue
		}
		require.NotContains(t, failed, v.ID)
	}
}

// All volumes vanish, with nothing in common: the same, though each token has to be found burned first.
func TestAllVolumesVanishAtOnce_AreReplacedInOneRound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ec2 := l.replaces(t, l.vanished)
	l.bed.EC2.VanishNext(6)
	result, err := l.restore(within(t), t, nil, nil)
	require.NoError(t, err)
	require.EqualValues(t, 18, ec2.calls.Load(), "one round: each token is tried again, and followed by the next one")
	require.Len(t, result.Volumes, 6)
}

// EC2 accepts every volume and drops it again, as it does with a KMS key that cannot be used: that is reported with the key's
// state before anything is replaced, and after one round if KMS does not show it. TestUnusableKey_Why_NamesTheState has the
// other states.
func TestAllVolumesVanish_NamesTheirKeyAndItsState(t *testing.T) { //nolint:tparallel // the parts share a testbed and follow each other
	t.Parallel()
	l := newLab(t)
	for _, row := range []struct {
		name, text string
		asked      int64
		denied     string // "" disables the key only once it was checked
	}{
		{"disabled", "its state is Disabled", 6, ""},
		{"not-to-be-described", "its state could not be read (describe kms key of ", 18, "DescribeKey"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ec2 := l.replaces(t, l.vanished)
			key := "arn:aws:kms:" + testbed.Region + ":123456789012:key/" + row.name
			l.bed.EC2.Deny(row.denied)
			ec2.before = func() { l.bed.EC2.SetKey(key, ebs.Key{State: ebs.KeyDisabled}) }
			_, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.KMSKey = key })
			require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "create volumes of "+key+": all 6 volumes")
			require.ErrorContains(t, err, row.text)
			require.Contains(t, failure.HintOf(err), "kms:CreateGrant")
			require.NotContains(t, err.Error(), "IdempotentParameterMismatch")
			require.EqualValues(t, row.asked, ec2.calls.Load(), "CreateVolume calls")
			l.nothingLeft(t)
		})
	}
}
