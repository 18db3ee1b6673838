package gc

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func (p *place) pin(t *testing.T, id cluster.BackupID) {
	t.Helper()
	_, err := p.catalog.Pin(t.Context(), catalog.PinRequest{Backup: id, Reason: "audit", Force: true})
	require.NoError(t, err)
}

func TestPinned_DeleteAndPruneLeaveIt(t *testing.T) {
	t.Parallel()
	p := daily(t, 3)
	p.pin(t, "day-3")
	_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "day-3", Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it is pinned: audit")
	require.Contains(t, failure.HintOf(err), "tisnap unpin day-3")

	report, err := DeleteEach(t.Context(), p.deps, []cluster.BackupID{"day-2", "day-3"}, DeleteOptions{Rate: fast, DryRun: true})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Equal(t, map[cluster.BackupID]Action{"day-2": ActionDelete, "day-3": ActionInUse}, decided(report))

	report, err = Prune(t.Context(), p.deps, keepLast(1))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionDeleted, "day-3": ActionKeep}, decided(report))
	require.Equal(t, "pinned: audit", report.Backups[2].Reason)
	require.Len(t, p.ec2.ids(), 2)
}

// A pin that is written after the checks of a deletion, and before it buries the backup, keeps it whole.
func TestPinned_AfterTheChecks_IsSeenBeforeTheBackupIsBuried(t *testing.T) {
	t.Parallel()
	p := daily(t, 2)
	deps, once := p.deps, sync.Once{}
	deps.Store = &written{Store: p.deps.Store, before: func(key string) error {
		if key == manifest.DeletionsKey(prod) {
			once.Do(func() { p.pin(t, "day-2") })
		}
		return nil
	}}
	_, err := Delete(t.Context(), deps, DeleteOptions{Backup: "day-2", Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	_, err = p.catalog.Load(t.Context(), "day-2")
	require.NoError(t, err)
	require.Len(t, p.ec2.ids(), 2)
}

// What is left of a backup that was being deleted when it was pinned stays until it is unpinned.
func TestPinned_BeingRemoved_GCKeepsTheRest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	p.pin(t, "b")
	require.NoError(t, p.catalog.Bury(t.Context(), "b", "r", "deleted", false))
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{"snap-1": ActionKeep, "snap-2": ActionKeep, "b": ActionKeep}, actions(report))
	_, version, err := p.catalog.StoredPin(t.Context(), "b")
	require.NoError(t, err)
	require.NoError(t, p.catalog.Unpin(t.Context(), "b", version))
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{"snap-1": ActionDeleted, "snap-2": ActionDeleted, "b": ActionDeleted}, actions(report))
}
