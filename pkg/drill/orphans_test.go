package drill_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/cage"
)

// An expired cage that the storage has no journal of is listed; others are not.
func TestOrphans_ExpiredWithoutAJournal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore") // a drill with a journal
	now, own := time.Now(), l.storageID(t.Context())
	add := func(run cluster.RunID, storage string, expires time.Duration) {
		_, err := l.kube.Cages().Make(within(t), cage.Spec{
			Run: run, Storage: storage, Expires: now.Add(expires), Pods: 1, Claims: 1, StorageGiB: 1,
		})
		require.NoError(t, err)
	}
	add("lost", own, -time.Minute)
	add("young", own, time.Minute)
	add("elsewhere", "other", -time.Minute)
	found, err := drill.Orphans(within(t), l.store, l.kube.Cages(), now)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, cage.Name("lost"), found[0].Namespace)
	found, err = drill.Orphans(within(t), l.store, l.kube.Cages(), now.Add(48*time.Hour))
	require.NoError(t, err)
	require.Len(t, found, 2, "the suspended drill has a journal, however old")
}

// So is an expired volume that a drill without a journal made.
func TestOrphanVolumes_ExpiredWithoutAJournal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.suspend(t, "restore") // a drill with a journal, and a volume
	now, own := time.Now(), l.storageID(t.Context())
	add := func(run, storage string, expires time.Duration) cluster.VolumeID {
		id, err := l.ec2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, ebs.Tags{
			ebs.TagRun: "r", ebs.TagDrill: run, ebs.TagStorage: storage,
			ebs.TagDrillExpires: now.Add(expires).UTC().Format(time.RFC3339),
		})
		require.NoError(t, err)
		return id
	}
	lost := add("lost", own, -time.Minute)
	add("young", own, time.Minute)
	add("elsewhere", "other", -time.Minute)
	add("", own, -time.Minute)
	require.Eventually(t, func() bool {
		all, err := l.ebs.AllVolumes(within(t))
		return err == nil && len(all) == 5
	}, 10*time.Second, 10*time.Millisecond)
	found, err := drill.OrphanVolumes(within(t), l.store, l.ebs, now)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, lost, found[0].ID)
	found, err = drill.OrphanVolumes(within(t), l.store, l.ebs, now.Add(48*time.Hour))
	require.NoError(t, err)
	require.Len(t, found, 2, "the suspended drill has a journal, however old")
}
