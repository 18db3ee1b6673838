package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// unknownSnapshot has the form of an id.
const unknownSnapshot = cluster.SnapshotID("snap-0123456789abcdef0")

// copyRequest is for a copy within the region, whose tags are its own.
func (s Subject) copyRequest(t *testing.T, from cluster.SnapshotID) ebs.CopyRequest {
	t.Helper()
	return ebs.CopyRequest{Snapshot: from, Region: s.Client.Region(), Tags: s.tags(t, "copy")}
}

// copied is the completed copy of a request to a region and account.
func (s Subject) copied(t *testing.T, to Client, req ebs.CopyRequest) ebs.Snapshot {
	t.Helper()
	id, err := to.CopySnapshot(t.Context(), req)
	require.NoError(t, err)
	var found []ebs.Snapshot
	s.eventually(t, "copied", func() bool {
		found, err = to.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
		require.NoError(t, err)
		return len(found) == 1 && found[0].State == ebs.SnapshotCompleted
	})
	return found[0]
}

func copySnapshot(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	req := s.copyRequest(t, from.ID)
	p := s.copied(t, s.Client, req)
	require.NotEqual(t, from.ID, p.ID)
	require.Equal(t, from.SizeGiB, p.SizeGiB)
	require.Equal(t, from.Owner, p.Owner)
	want := req.Tags
	want[ebs.TagCopiedFrom] = string(from.ID)
	require.Equal(t, want, p.Tags)
	found, err := s.Client.FindSnapshots(t.Context(), want)
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func copyEncrypted(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	req := s.copyRequest(t, s.completed(t, i, volumes)[0].ID)
	req.KMSKey = key
	p := s.copied(t, s.Client, req)
	require.True(t, p.Encrypted)
	require.Equal(t, key, p.KMSKey)
}

func copyAway(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	req := s.copyRequest(t, from.ID)
	p := s.copied(t, s.Away, req)
	require.Equal(t, from.SizeGiB, p.SizeGiB)
	require.Equal(t, from.Owner, p.Owner)
	require.Equal(t, string(from.ID), p.Tags[ebs.TagCopiedFrom])
	require.NoError(t, s.Client.DeleteSnapshot(t.Context(), from.ID))
	for c, want := range map[Client]int{s.Client: 0, s.Away: 1} {
		found, err := c.FindSnapshots(t.Context(), ebs.Tags{ebs.TagCopiedFrom: string(from.ID)})
		require.NoError(t, err)
		require.Len(t, found, want)
	}
	_, err := s.Away.CopySnapshot(t.Context(), s.copyRequest(t, p.ID))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "a region has its own snapshots: %v", err)
}

// copyShared copies what another account shares, into another region, where the copy is its maker's alone.
func copyShared(t *testing.T, s Subject) {
	s.needs(t, TraitAccounts)
	i, volumes := s.Instance(t, 1)
	from := s.completed(t, i, volumes)[0]
	req := s.copyRequest(t, from.ID)
	require.Equal(t, failure.NotFound, failure.KindOf(s.Guest.ProbeCopy(s.bounded(t), req)))
	guest, err := s.Guest.AccountID(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Client.ShareSnapshot(t.Context(), from.ID, []string{guest}))
	p := s.copied(t, s.Guest, req)
	require.Equal(t, guest, p.Owner)
	require.NoError(t, s.Client.UnshareSnapshot(t.Context(), from.ID, []string{guest}))
	require.Equal(t, failure.NotFound, failure.KindOf(s.Guest.ProbeCopy(s.bounded(t), req)))
	found, err := s.Away.DescribeSnapshots(t.Context(), []cluster.SnapshotID{p.ID})
	require.NoError(t, err)
	require.Empty(t, found)
}

func copyNowhere(t *testing.T, s Subject) {
	_, err := s.Client.CopySnapshot(t.Context(), s.copyRequest(t, unknownSnapshot))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func copyProbed(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	req := s.copyRequest(t, s.completed(t, i, volumes)[0].ID)
	require.NoError(t, s.Client.ProbeCopy(t.Context(), req))
	found, err := s.Client.FindSnapshots(t.Context(), req.Tags)
	require.NoError(t, err)
	require.Empty(t, found)
}

func shareOnAndOff(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	id, others := s.completed(t, i, volumes)[0].ID, []string{"222222222222", "333333333333"}
	require.NoError(t, s.Client.ShareSnapshot(t.Context(), id, others))
	with, err := s.Client.SharedWith(t.Context(), id)
	require.NoError(t, err)
	require.ElementsMatch(t, others, with)
	for range 2 {
		require.NoError(t, s.Client.UnshareSnapshot(t.Context(), id, others[:1]))
	}
	with, err = s.Client.SharedWith(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, others[1:], with)
}

func shareNowhere(t *testing.T, s Subject) {
	err := s.Client.ShareSnapshot(t.Context(), unknownSnapshot, []string{"222222222222"})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.NoError(t, s.Client.UnshareSnapshot(t.Context(), unknownSnapshot, []string{"222222222222"}))
}

func lockOnAndOff(t *testing.T, s Subject) {
	s.needs(t, TraitLocks)
	i, volumes := s.Instance(t, 1)
	id := s.completed(t, i, volumes)[0].ID
	req := ebs.LockRequest{Snapshot: id, Mode: ebs.LockGovernance, Until: time.Now().AddDate(0, 0, 900)}
	lock, err := s.Client.LockSnapshot(s.bounded(t), req)
	require.NoError(t, err)
	require.Equal(t, ebs.LockGovernance, lock.Mode)
	require.WithinDuration(t, req.Until, lock.ExpiresAt, time.Second)
	require.Error(t, s.Client.DeleteSnapshot(t.Context(), id))
	require.NoError(t, s.Client.UnlockSnapshot(t.Context(), id))
	require.NoError(t, s.Client.DeleteSnapshot(t.Context(), id))
}
