package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore"
)

func TestLogBackups_OfTheSource_AreShown(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	ts := func(ago time.Duration) cluster.TS { return cluster.MakeTS(at.Add(-ago), 0) }
	m := &manifest.Manifest{ID: "b", BackupTS: ts(0), LogBackups: []manifest.LogBackup{
		{Name: "pitr", StartTS: ts(time.Hour), Checkpoint: ts(0)},
		{Name: "usual", StartTS: ts(time.Hour), Checkpoint: ts(3 * time.Minute)},
		{Name: "stuck", StartTS: ts(3 * time.Hour), Checkpoint: ts(2 * time.Hour)},
		{Name: "idle", StartTS: ts(time.Hour), Checkpoint: ts(0), Paused: true},
		{Name: "full", StartTS: ts(time.Hour), Checkpoint: ts(0), Paused: true, Error: "Raft: no space"},
		{Name: "late", StartTS: ts(-time.Hour), Checkpoint: ts(-time.Hour)}, {Name: "old", StartTS: ts(time.Hour)},
	}}
	require.Equal(t, "pitr covers the backup ts; usual covers the backup ts once its log, 3m0s behind it, has caught up; "+
		"stuck was 2h0m0s behind the backup ts; idle was paused; full had failed: Raft: no space; "+
		"late started later, or its start is unknown; old ran; how far its log was is unknown", logBackupsText(m))
	require.Equal(t, []string{"pitr", "usual"}, m.CoveredBy())
	shown := func(r *restore.Result, of func(*restore.Result) document) string {
		var out bytes.Buffer
		r.Journalled = true
		require.NoError(t, of(r).table(&out, view{}))
		return out.String()
	}
	for name, of := range map[string]func(*restore.Result) document{
		"restore": func(r *restore.Result) document { return restoreResult(t.Context(), restore.Options{}, r, nil) },
		"resolve": func(r *restore.Result) document { return resolveResult(t.Context(), restore.Options{}, r, nil) },
	} {
		with := shown(&restore.Result{Manifest: m, Restored: true}, of)
		require.Contains(t, with, "log backup pitr, usual, stuck, idle, full, late, old of the source does not continue", name)
		require.Contains(t, with, "2. br log start", name)
		without := &manifest.Manifest{ID: "b"}
		require.NotContains(t, shown(&restore.Result{Manifest: without, Restored: true}, of), "br log", name)
		require.NotContains(t, shown(&restore.Result{Manifest: m}, of), "br log start", name)
	}
}
