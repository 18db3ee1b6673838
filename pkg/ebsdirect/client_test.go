package ebsdirect_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest/suite"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// snapshot cuts a new volume on which the blocks are written.
func (a *account) snapshot(t *testing.T, indexes ...int64) (cluster.SnapshotID, cluster.VolumeID, cluster.InstanceID) {
	t.Helper()
	i := a.server.AddInstance(zone)
	v, err := a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
	require.NoError(t, err)
	require.NoError(t, a.server.Attach(v, i))
	return a.cut(t, i, v, indexes...), v, i
}

// cut writes blocks on a volume and makes a snapshot of it.
func (a *account) cut(t *testing.T, i cluster.InstanceID, v cluster.VolumeID, indexes ...int64) cluster.SnapshotID {
	t.Helper()
	device, err := a.server.Device(v)
	require.NoError(t, err)
	for _, index := range indexes {
		_, err := device.WriteAt(suite.Block(byte(index)), index*ebsdirect.BlockSize)
		require.NoError(t, err)
	}
	made, err := a.ec2.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: []cluster.VolumeID{v}})
	require.NoError(t, err)
	a.completed(t, made[0].ID)
	return made[0].ID
}

func (a *account) completed(t *testing.T, id cluster.SnapshotID) {
	a.becomes(t, id, ebs.SnapshotCompleted)
}

func (a *account) becomes(t *testing.T, id cluster.SnapshotID, want ebs.SnapshotState) {
	t.Helper()
	require.Eventually(t, func() bool {
		found, _, ok := a.server.Snapshot(id)
		return ok && found.State == want
	}, 20*time.Second, time.Millisecond, want)
}

func (a *account) blocks(t *testing.T, id cluster.SnapshotID) []ebsdirect.Block {
	t.Helper()
	var all []ebsdirect.Block
	for b, err := range a.Blocks(t.Context(), id, 0) {
		require.NoError(t, err)
		all = append(all, b)
	}
	return all
}

func indexes(blocks []ebsdirect.Block) []int64 {
	var all []int64
	for _, b := range blocks {
		all = append(all, b.Index)
	}
	return all
}

func TestBlocks_ManyPagesSomeEmpty_AllListed(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(r *ebsdirecttest.Rules) { r.BlocksInPage, r.IndexesInPage = 2, 100 })
	want := []int64{0, 1, 2, 3, 4, 99, 100, 5000, 5001, 20479}
	id, _, _ := a.snapshot(t, want...)
	require.Equal(t, want, indexes(a.blocks(t, id)))
	require.Greater(t, a.Stats().Lists, int64(100), "each page covers 100 indexes")
}

func TestChanged_OfAVolume_WrittenAndDiscarded(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	base, v, i := a.snapshot(t, 1, 2, 3)
	device, err := a.server.Device(v)
	require.NoError(t, err)
	device.Discard(3*ebsdirect.BlockSize, ebsdirect.BlockSize)
	id := a.cut(t, i, v, 2, 7)
	var absent []bool
	var all []ebsdirect.Block
	for b, err := range a.Changed(t.Context(), base, id, 0) {
		require.NoError(t, err)
		all, absent = append(all, b), append(absent, b.Absent())
	}
	require.Equal(t, []int64{2, 3, 7}, indexes(all))
	require.Equal(t, []bool{false, true, false}, absent)
	data := suite.Block(9)
	sum, err := a.Read(t.Context(), all[1], data)
	require.NoError(t, err)
	require.Equal(t, make([]byte, ebsdirect.BlockSize), data, "an absent block reads as zeros")
	require.Equal(t, ebsdirect.SumOf(data), sum)

	other, _, _ := a.snapshot(t, 1)
	for _, err := range a.Changed(t.Context(), base, other, 0) {
		require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	}
}

func TestRead_DamagedOnItsWay_IsReadAgainAndNeverReturned(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	id, _, _ := a.snapshot(t, 4)
	b, data := a.blocks(t, id)[0], make([]byte, ebsdirect.BlockSize)
	a.direct.DamageNext(ebsdirecttest.FlippedBit, ebsdirecttest.Short)
	_, err := a.Read(t.Context(), b, data)
	require.NoError(t, err)
	require.True(t, bytes.Equal(suite.Block(4), data))
	require.EqualValues(t, 3, a.Stats().Reads)

	for _, how := range []ebsdirecttest.Damage{ebsdirecttest.FlippedBit, ebsdirecttest.Short} {
		a.direct.DamageNext(how, how, how, how, how)
		sum, err := a.Read(t.Context(), b, data)
		require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
		require.Zero(t, sum)
	}
}

func TestRead_TokenIsOld_IsRenewed(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	id, _, _ := a.snapshot(t, 3, 4, 5)
	blocks, data := a.blocks(t, id), make([]byte, ebsdirect.BlockSize)
	a.clock.Advance(6*24*time.Hour + time.Minute)
	_, err := a.Read(t.Context(), blocks[1], data)
	require.NoError(t, err)
	require.True(t, bytes.Equal(suite.Block(4), data))
	require.EqualValues(t, 2, a.Stats().Lists, "listed again for a new token")
	require.Empty(t, a.direct.Refusals(), "it was renewed before it expired")
}

func TestRead_TokenExpiredEarly_IsRenewed(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(r *ebsdirecttest.Rules) { r.BlockTokenLife = time.Hour })
	id, _, _ := a.snapshot(t, 4)
	blocks, data := a.blocks(t, id), make([]byte, ebsdirect.BlockSize)
	a.clock.Advance(2 * time.Hour)
	_, err := a.Read(t.Context(), blocks[0], data)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"ValidationException/INVALID_BLOCK_TOKEN": 1}, a.direct.Refusals())
}

func TestBlocks_ListTakesDays_TokensStayYoung(t *testing.T) {
	t.Parallel()
	const pageToken = "ValidationException/INVALID_PAGE_TOKEN"
	for days, refused := range map[time.Duration][]string{5: nil, 2: {pageToken}} { // a page is old in its middle, at its end
		a := newAccount(t, func(r *ebsdirecttest.Rules) { r.BlocksInPage = 3 })
		want := []int64{0, 1, 2, 3, 4, 5, 6, 7}
		id, _, _ := a.snapshot(t, want...)
		var got []int64
		data := make([]byte, ebsdirect.BlockSize)
		for b, err := range a.Blocks(t.Context(), id, 0) {
			require.NoError(t, err)
			lists := a.Stats().Lists
			_, err = a.Read(t.Context(), b, data)
			require.NoError(t, err)
			require.Equal(t, lists, a.Stats().Lists, "the block was young enough")
			got = append(got, b.Index)
			a.clock.Advance(days * 24 * time.Hour) //nolint:durationcheck // days is a constant
		}
		require.Equal(t, want, got)
		require.ElementsMatch(t, refused, slices.Collect(maps.Keys(a.direct.Refusals())))
	}
}

func TestCalls_RefusedOrAnswerLost_AreRepeatedWithoutFurtherEffect(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for _, name := range []string{"StartSnapshot", "PutSnapshotBlock", "CompleteSnapshot"} {
		a.fault(t, fault.Rule{Point: "ebs." + name, Position: fault.After})
		a.fault(t, fault.Rule{Point: "ebs." + name, Code: "ValidationException/WRITE_REQUEST_TIMEOUT"})
	}
	n := ebsdirect.NewSnapshot{SizeGiB: 1, Token: ebsdirect.Token("run", "vol-1")}
	id, err := a.Start(t.Context(), n)
	require.NoError(t, err)
	sum := ebsdirect.SumOf(suite.Block(1))
	require.NoError(t, a.Put(t.Context(), id, 7, suite.Block(1), sum))
	var all ebsdirect.Linear
	require.NoError(t, all.Add(7, sum))
	require.NoError(t, a.Complete(t.Context(), id, all.Blocks(), all.Sum()))
	a.completed(t, id)
	require.Len(t, a.server.Snapshots(), 1)
}

func TestWritten_VolumeOfIt_HasTheBytes(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	parent, _, _ := a.snapshot(t, 1, 2)
	n := ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 20, Parent: parent, Tags: ebs.Tags{ebs.TagRun: "r"}, Timeout: time.Hour}
	id, err := a.Start(t.Context(), n)
	require.NoError(t, err)
	var all ebsdirect.Linear
	for _, index := range []int64{2, 40959} {
		sum := ebsdirect.SumOf(suite.Block(77))
		require.NoError(t, a.Put(t.Context(), id, index, suite.Block(77), sum))
		require.NoError(t, all.Add(index, sum))
	}
	require.NoError(t, a.Complete(t.Context(), id, all.Blocks(), all.Sum()))
	a.completed(t, id)
	made, err := a.ec2.CreateVolume(t.Context(), ebs.VolumeRequest{
		Snapshot: id, Zone: zone, Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 20}, Token: "t",
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		v, ok := a.server.Volume(made.ID)
		return ok && v.State == ebs.VolumeAvailable
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, a.server.Attach(made.ID, a.server.AddInstance(zone)))
	device, err := a.server.Device(made.ID)
	require.NoError(t, err)
	for index, want := range map[int64][]byte{
		0: make([]byte, ebsdirect.BlockSize), 1: suite.Block(1), 2: suite.Block(77), 40959: suite.Block(77),
	} {
		got := make([]byte, ebsdirect.BlockSize)
		_, err := device.ReadAt(got, index*ebsdirect.BlockSize)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "block %d", index)
	}
}

func TestStart_NothingPutForTheTimeout_SnapshotIsInError(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	id, err := a.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1, Timeout: 90 * time.Minute})
	require.NoError(t, err)
	a.clock.Advance(80 * time.Minute)
	sum := ebsdirect.SumOf(suite.Block(1))
	require.NoError(t, a.Put(t.Context(), id, 0, suite.Block(1), sum))
	a.clock.Advance(80 * time.Minute)
	a.becomes(t, id, ebs.SnapshotPending)
	a.clock.Advance(11 * time.Minute)
	a.becomes(t, id, ebs.SnapshotError)
	err = a.Put(t.Context(), id, 0, suite.Block(1), sum)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestStart_Encrypted_BySelfOrParent(t *testing.T) {
	t.Parallel()
	const key = "arn:aws:kms:us-west-2:123456789012:key/k"
	a := newAccount(t)
	id, err := a.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1, Encrypted: true, KMSKey: key})
	require.NoError(t, err)
	require.NoError(t, a.Complete(t.Context(), id, 0, ebsdirect.SumOf(nil)))
	a.completed(t, id)
	child, err := a.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1, Parent: id})
	require.NoError(t, err)
	for _, id := range []cluster.SnapshotID{id, child} {
		found, _, ok := a.server.Snapshot(id)
		require.True(t, ok)
		require.True(t, found.Encrypted)
		require.Equal(t, key, found.KMSKey)
	}
}

func TestStart_AccountHasTooManyPending_Limited(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.server.AddForeignSnapshots(ebstest.QuickRules().PendingInAccount, 1000*time.Hour)
	_, err := a.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
}

func TestTarget_LockIsLost_NothingIsSent(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	lost := errors.New("the lock is another run's")
	ctx := fenced.With(t.Context(), func(context.Context) error { return lost })
	_, start := a.Start(ctx, ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1})
	for _, err := range []error{
		start, a.Put(ctx, "snap-1", 0, suite.Block(1), ebsdirect.Sum{}), a.Complete(ctx, "snap-1", 0, ebsdirect.Sum{}),
	} {
		require.ErrorIs(t, err, lost)
		require.True(t, fenced.Refused(err))
	}
	require.Empty(t, a.direct.Calls())
}

func TestRead_NotPermitted_NamesTheAction(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	id, _, _ := a.snapshot(t, 1)
	b := a.blocks(t, id)[0]
	a.server.Deny("GetSnapshotBlock")
	_, err := a.Read(t.Context(), b, make([]byte, ebsdirect.BlockSize))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "ebs:GetSnapshotBlock")
}

func TestCalls_Counted_PriceAsListed(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	id, _, _ := a.snapshot(t, 1, 2)
	for _, b := range a.blocks(t, id) {
		_, err := a.Read(t.Context(), b, make([]byte, ebsdirect.BlockSize))
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"ListSnapshotBlocks": 1, "GetSnapshotBlock": 2}, a.direct.Calls())
	require.InDelta(t, (0.0006+2*0.003)/1000, a.direct.Dollars(), 1e-12)
	require.Equal(t, ebsdirect.Stats{Lists: 1, Reads: 2}, a.Stats())
}
