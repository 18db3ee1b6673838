package br_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// The two jobs of a VolumeBackup: one holds until it gets SIGTERM, the other one cuts under its hold.
func TestBackup_UnderTheHoldOfTheOtherJob_IsComplete(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t)
	for _, line := range []string{"GC is paused", "Schedulers are paused", "All ready"} {
		pause.awaitLine(t, line)
	}
	held := p.c.Held()
	require.NotEmpty(t, held)

	backup := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	require.Len(t, p.EC2.Snapshots(), 6)
	require.NotEmpty(t, p.c.Held(), "the hold is not the backup's to end")
	require.InDelta(t, 100, p.progress(t), 0)
	require.Empty(t, backup.condition())

	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out()+pause.condition())
	require.Empty(t, p.c.Held())

	meta := p.backupMeta(t)
	require.NoError(t, meta.Validate())
	require.Equal(t, backup.resolvedTS(t), meta.Cluster.ResolvedTS)
	entries, err := catalog.Catalog{Store: p.store(t)}.List(t.Context())
	require.NoError(t, err)
	m, err := catalog.Catalog{Store: p.store(t)}.Load(t.Context(), entries[0].ID)
	require.NoError(t, err)
	require.NotEmpty(t, m.HeldBy)
	require.True(t, slices.ContainsFunc(held, func(s string) bool { return strings.HasPrefix(s, "safe point tisnap-"+string(m.HeldBy)) }), "%s: %v", m.HeldBy, held)
	require.Equal(t, &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, m.EarlyApply)
	require.Len(t, entries, 1)
	require.Equal(t, catalog.StateSealed, entries[0].State, "it can be restored by tisnap, too")
}

// Without the other job it holds the cluster on its own, and releases it.
func TestBackup_WithItsOwnHold_IsComplete(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	backup := p.backup(t)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	require.Empty(t, p.c.Held())
	require.Len(t, p.EC2.Snapshots(), 6)
	require.Equal(t, backup.resolvedTS(t), p.backupMeta(t).Cluster.ResolvedTS)
	require.Equal(t, 1, strings.Count(backup.out(), "EBS backup success"))
	lock := p.lockFile(t)
	require.Contains(t, lock, `"id": "br-`, "as br leaves it: the prefix stays used after a success")

	again := p.backup(t)
	require.NotEqual(t, brcompat.ExitDone, again.ends(t), "the prefix is used")
	require.Contains(t, again.out(), manifest.BRBackupMeta)
	require.Len(t, p.EC2.Snapshots(), 6)
	require.NotNil(t, p.backupMeta(t))
	require.Equal(t, lock, p.lockFile(t), "the lock is that of the backup that is there")

	// The lock alone keeps br, and this one, away: backupmeta may have been deleted by hand.
	require.NoError(t, p.store(t).Delete(t.Context(), manifest.BRBackupMeta))
	p.backup(t).requireRefused(t, manifest.BRLock)
	require.Equal(t, lock, p.lockFile(t))
	require.Len(t, p.EC2.Snapshots(), 6)
}

// lockFile is br's mark of a used prefix.
func (p *place) lockFile(t *testing.T) string {
	t.Helper()
	body, _, err := p.store(t).Get(t.Context(), manifest.BRLock)
	require.NoError(t, err)
	return string(body)
}
