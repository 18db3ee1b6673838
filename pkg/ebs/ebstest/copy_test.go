package ebstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestCopy_ToAnotherRegion_SameDataNoTagsNoVolume(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 3)
	to := w.away.copied(t, copyOf(id))
	require.Equal(t, ebs.SnapshotPending, w.away.one(t, to).State)
	w.clock.Advance(4 * time.Second)
	p := w.away.one(t, to)
	require.Equal(t, ebs.SnapshotCompleted, p.State)
	require.Equal(t, 3*time.Second, p.CompletedAt.Sub(p.StartedAt))
	require.Empty(t, p.Tags)
	require.Equal(t, ebstest.NoVolume, p.Volume)
	from, err := w.home.Image(cluster.SnapshotID(id))
	require.NoError(t, err)
	here, err := w.away.Image(to)
	require.NoError(t, err)
	require.Empty(t, from.Changed(here, disk.PageSize))
	require.Len(t, w.home.Snapshots(), 1, "the copy is in the other region alone")

	described, err := w.away.sdk().DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{string(to)}})
	require.NoError(t, err)
	require.Equal(t, types.TransferTypeStandard, described.Snapshots[0].TransferType)
	_, err = w.away.sdk().DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	require.Equal(t, "InvalidSnapshot.NotFound", codeOf(t, err), "a region has its own ids")
}

func TestCopy_KeyByAliasOrDefault_IsReportedAsTheKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id, own := w.cut(t, v, 1), "arn:aws:kms:eu-west-1:222222222222:key/own"
	w.away.SetAlias("alias/own", own)
	key := func(change ...func(*ec2.CopySnapshotInput)) string {
		return w.away.one(t, w.away.copied(t, copyOf(id, change...))).KMSKey
	}
	require.Empty(t, key())
	require.Equal(t, own, key(func(in *ec2.CopySnapshotInput) {
		in.Encrypted, in.KmsKeyId = aws.Bool(true), aws.String("alias/own")
	}))
	w.away.SetDefaultKey("", true)
	require.Contains(t, key(), ":key/default")
	w.away.SetDefaultKey("alias/own", true)
	require.Equal(t, own, key())
}

func TestCopy_SourceIsNotCompletedOrNotThere_Refused(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	w := startWorld(t, func(r *ebstest.Rules) { r.SnapshotBase = time.Hour })
	v, _ := w.home.volume(t)
	require.Empty(t, w.home.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	pending := string(w.home.Snapshots()[0].ID)
	for name, test := range map[string]struct {
		in   *ec2.CopySnapshotInput
		code string
	}{
		"pending":            {copyOf(pending), "IncorrectState"},
		"unknown":            {copyOf("snap-0123456789abcdef0"), "InvalidSnapshot.NotFound"},
		"in no such region":  {copyOf(pending, func(in *ec2.CopySnapshotInput) { in.SourceRegion = aws.String("mars-1") }), "InvalidParameterValue"},
		"in another region":  {copyOf(pending, func(in *ec2.CopySnapshotInput) { in.SourceRegion = aws.String(europe) }), "InvalidSnapshot.NotFound"},
		"key, not encrypted": {copyOf(pending, func(in *ec2.CopySnapshotInput) { in.KmsKeyId = aws.String("k") }), "IncorrectState"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.away.sdk().CopySnapshot(t.Context(), test.in)
			require.Equal(t, test.code, codeOf(t, err))
		})
	}
	require.Empty(t, w.away.Snapshots())
}

// A row is one copy of a volume after another; full is why all its pages are moved.
func TestCopy_OfOneVolume_IncrementalOnlyInItsLineage(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	first, second := w.cut(t, v, 5), w.cut(t, v, 2)
	key := keyOf(prod, europe, "dr")
	one := w.away.copied(t, copyOf(first))
	w.clock.Advance(time.Hour)
	two := w.away.copied(t, copyOf(second))
	w.clock.Advance(time.Hour)
	w.away.copied(t, copyOf(second, withKey(key)))
	w.clock.Advance(time.Hour)
	remove := func(id cluster.SnapshotID) {
		require.Empty(t, w.away.call(t, "DeleteSnapshot", "SnapshotId", string(id)).Code)
	}
	remove(one)
	remove(two)
	w.away.copied(t, copyOf(first, withKey(key)))
	w.clock.Advance(time.Hour)
	last := w.away.copied(t, copyOf(second, withKey(key)))
	w.clock.Advance(time.Hour)
	remove(last)
	w.away.copied(t, copyOf(second, withKey(key)))

	var moved []int64
	var why []string
	for _, c := range w.away.Copies() {
		moved, why = append(moved, c.Bytes/disk.PageSize), append(why, c.Full)
	}
	require.Equal(t, []int64{5, 2, 5, 2, 2, 5}, moved)
	require.Equal(t, []string{ebstest.FullFirst, "", ebstest.FullKey, "", "", ebstest.FullDeleted}, why)

	w.clock.Advance(time.Hour)
	all := w.away.Snapshots()
	w.home.copied(t, &ec2.CopySnapshotInput{
		SourceRegion: aws.String(europe), SourceSnapshotId: aws.String(string(all[len(all)-1].ID)),
	})
	require.Equal(t, ebstest.FullFirst, w.home.Copies()[0].Full, "a copy of a copy has a lineage of its own")
}

func TestCopy_WithinRegionAndEncryption_MovesNothing(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 5)
	to := w.home.copied(t, copyOf(id))
	require.Equal(t, ebs.SnapshotCompleted, w.home.one(t, to).State)
	w.home.copied(t, copyOf(id, withKey(keyOf(prod, west, "own"))))
	require.Equal(t, []int64{0, 5 * disk.PageSize}, []int64{w.home.Copies()[0].Bytes, w.home.Copies()[1].Bytes})
}

func TestCopy_TwoOfOneVolume_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	first, second := w.cut(t, v, 10), w.cut(t, v, 3)
	one, two := w.away.copied(t, copyOf(first)), w.away.copied(t, copyOf(second))
	require.Len(t, w.away.Copies(), 1, "the second waits")
	w.clock.Advance(time.Hour) // in which both end, without a call
	require.Equal(t, ebs.SnapshotCompleted, w.away.one(t, two).State)
	require.Equal(t, 3*time.Second, w.away.one(t, two).CompletedAt.Sub(w.away.one(t, one).CompletedAt))
	require.Empty(t, w.away.Copies()[1].Full)

	third := w.away.copied(t, copyOf(first))
	fourth := w.away.copied(t, copyOf(second))
	require.Empty(t, w.away.call(t, "DeleteSnapshot", "SnapshotId", string(third)).Code)
	require.Len(t, w.away.Copies(), 4, "the end of the one before may be its deletion")
	w.clock.Advance(time.Hour)
	require.Equal(t, ebs.SnapshotCompleted, w.away.one(t, fourth).State)
}

func TestCopy_SlotsOfTheRegion_Refused(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 100)
	for range 20 {
		w.away.copied(t, copyOf(id))
	}
	_, err := w.away.sdk().CopySnapshot(t.Context(), copyOf(id))
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, err))
	w.clock.Advance(101 * time.Second) // the others find nothing to move
	w.away.copied(t, copyOf(id))
}

func TestCopy_ByDuration_SharesWhatThePairHas(t *testing.T) {
	t.Parallel()
	w := startWorld(t, func(r *ebstest.Rules) {
		r.Copies.MostRate, r.Copies.PairRate = disk.PageSize/2, disk.PageSize*3/4
	})
	within := func(minutes int32) func(*ec2.CopySnapshotInput) {
		return func(in *ec2.CopySnapshotInput) { in.CompletionDurationMinutes = aws.Int32(minutes) }
	}
	var ids []string
	for range 3 {
		v, _ := w.home.volume(t)
		ids = append(ids, w.cut(t, v, 900))
	}
	_, err := w.away.sdk().CopySnapshot(t.Context(), copyOf(ids[0], within(20)))
	require.Equal(t, "InvalidParameterValue", codeOf(t, err), "not a multiple of 15")
	one, two := w.away.copied(t, copyOf(ids[0], within(15))), w.away.copied(t, copyOf(ids[1], within(15)))
	_, err = w.away.sdk().CopySnapshot(t.Context(), copyOf(ids[2], within(15)))
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, err), "nothing is left")
	w.clock.Advance(2 * time.Hour)
	for id, want := range map[cluster.SnapshotID]time.Duration{one: 30 * time.Minute, two: time.Hour} {
		p := w.away.one(t, id)
		require.Equal(t, want, p.CompletedAt.Sub(p.StartedAt), "it takes longer than asked for")
	}
	described, err := w.away.sdk().DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{string(one)}})
	require.NoError(t, err)
	require.Equal(t, types.TransferTypeTimeBased, described.Snapshots[0].TransferType)
	require.EqualValues(t, 15, *described.Snapshots[0].CompletionDurationMinutes)
}

// EC2 accepts a copy whose key it cannot use.
func TestCopy_KeyIsNotUsable_ErrorLater(t *testing.T) {
	t.Parallel()
	own, usual := keyOf(prod, west, "own"), keyOf(prod, europe, "default")
	for name, test := range map[string]struct {
		key    string // of the copy
		before func(w *world)
		fails  bool
	}{
		"default key":                       {},
		"default key is disabled":           {before: func(w *world) { w.away.SetKey(usual, ebs.Key{State: ebs.KeyDisabled}) }, fails: true},
		"own key":                           {key: keyOf(prod, europe, "dr")},
		"key of another region":             {key: own, fails: true},
		"key of another account":            {key: keyOf(other, europe, "dr"), fails: true},
		"shared key of another account":     {key: keyOf(other, europe, "dr"), before: func(w *world) { w.guestAway.ShareKey(keyOf(other, europe, "dr"), prod) }},
		"key is gone":                       {key: keyOf(prod, europe, "dr"), before: func(w *world) { w.away.DeleteKey(keyOf(prod, europe, "dr")) }, fails: true},
		"key of the source may not be used": {before: func(w *world) { w.home.RefuseKey(own) }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWorld(t)
			v, _ := w.home.volume(t)
			require.NoError(t, w.home.Encrypt(v, own))
			id := w.cut(t, v, 1)
			if test.before != nil {
				test.before(w)
			}
			in := copyOf(id)
			if test.key != "" {
				withKey(test.key)(in)
			}
			to := w.away.copied(t, in)
			w.clock.Advance(30 * time.Second)
			require.Equal(t, test.fails, w.away.one(t, to).State == ebs.SnapshotPending)
			w.clock.Advance(time.Minute)
			p := w.away.one(t, to)
			require.True(t, p.Encrypted)
			if test.fails {
				require.Equal(t, ebs.SnapshotError, p.State)
				require.Equal(t, "Given key ID is not accessible", p.Message)
				return
			}
			require.Equal(t, ebs.SnapshotCompleted, p.State)
			if test.key == "" {
				require.Equal(t, usual, p.KMSKey)
			}
		})
	}
}

func TestCopy_EncryptedWithoutPresignedURL_ErrorLater(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	plain := w.cut(t, v, 1)
	require.NoError(t, w.home.Encrypt(v, keyOf(prod, west, "own")))
	encrypted := w.cut(t, v, 1)
	for id, want := range map[string]ebs.SnapshotState{plain: ebs.SnapshotCompleted, encrypted: ebs.SnapshotError} {
		a := w.away.call(t, "CopySnapshot", "SourceRegion", west, "SourceSnapshotId", id)
		require.Empty(t, a.Code)
		w.clock.Advance(time.Hour)
		all := w.away.Snapshots()
		require.Equal(t, want, all[len(all)-1].State)
	}
}

func TestCopy_FaultsOnTheWay_AsPlanned(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	v, _ := w.home.volume(t)
	id := w.cut(t, v, 2)
	late := func(r fault.Rule) cluster.SnapshotID {
		r.Point = "ec2.CopySnapshot.late"
		require.NoError(t, w.away.faults.Add(r))
		to := w.away.copied(t, copyOf(id))
		w.clock.Advance(10 * time.Minute)
		return to
	}
	failed := w.away.one(t, late(fault.Rule{Position: fault.Before, Code: "Out of luck"}))
	require.Equal(t, ebs.SnapshotError, failed.State)
	require.Equal(t, "Out of luck", failed.Message)
	slow := late(fault.Rule{Position: fault.Slow, Delay: 20 * time.Minute})
	require.Equal(t, ebs.SnapshotPending, w.away.one(t, slow).State)
	w.clock.Advance(11 * time.Minute)
	require.Equal(t, ebs.SnapshotCompleted, w.away.one(t, slow).State)
	stuck := late(fault.Rule{Position: fault.Stall})
	w.clock.Advance(1000 * time.Hour)
	require.Equal(t, ebs.SnapshotPending, w.away.one(t, stuck).State)
	require.Empty(t, w.away.faults.Unreached())

	require.NoError(t, w.away.faults.Add(fault.Rule{Point: "ec2.CopySnapshot", Position: fault.After}))
	before := len(w.away.Snapshots())
	_, err := w.away.sdk().CopySnapshot(t.Context(), copyOf(id))
	require.Error(t, err)
	require.Len(t, w.away.Snapshots(), before+1, "the answer is lost, and the copy is not")
}

// What EC2 does then is not documented: both are possible.
func TestCopy_SourceGoesAway_ByTheRule(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(t *testing.T, w *world, id string){
		"deleted": func(t *testing.T, w *world, id string) {
			t.Helper()
			require.Empty(t, w.home.call(t, "DeleteSnapshot", "SnapshotId", id).Code)
		},
		"no longer shared": func(t *testing.T, w *world, id string) {
			t.Helper()
			share(t, w.home, id, "remove", other)
		},
	} {
		for _, needed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", needed ", needed), func(t *testing.T) {
				t.Parallel()
				w := startWorld(t, func(r *ebstest.Rules) { r.Copies.NeedSource = needed })
				v, _ := w.home.volume(t)
				id := w.cut(t, v, 60)
				share(t, w.home, id, "add", other)
				to := w.guestAway.copied(t, copyOf(id))
				w.clock.Advance(30 * time.Second)
				gone(t, w, id)
				w.clock.Advance(time.Hour)
				require.Equal(t, needed, w.guestAway.one(t, to).State == ebs.SnapshotError)
				image, err := w.guestAway.Image(to)
				require.NoError(t, err)
				require.EqualValues(t, 60*disk.PageSize, image.UsedBytes)
			})
		}
	}
}
