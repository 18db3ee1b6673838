package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore"
)

func TestLogBackups_OfTheSource_AreShown(t *testing.T) {
	t.Parallel()
	m := &manifest.Manifest{ID: "b", BackupTS: 10, LogBackups: []manifest.LogBackup{
		{Name: "pitr", StartTS: 9}, {Name: "idle", StartTS: 9, Paused: true}, {Name: "late", StartTS: 11},
	}}
	require.Equal(t, "pitr covers the backup ts; idle was paused; late started later, or its start is unknown",
		logBackupsText(m))
	shown := func(r *restore.Result, print func(*restore.Result) document) string {
		var out bytes.Buffer
		r.Journalled = true
		require.NoError(t, print(r).table(&out, view{}))
		return out.String()
	}
	for name, print := range map[string]func(*restore.Result) document{
		"restore": func(r *restore.Result) document { return restoreResult(t.Context(), restore.Options{}, r, nil) },
		"resolve": func(r *restore.Result) document { return resolveResult(t.Context(), restore.Options{}, r, nil) },
	} {
		with := shown(&restore.Result{Manifest: m, Restored: true}, print)
		require.Contains(t, with, "log backup pitr, idle, late of the source does not continue", name)
		require.Contains(t, with, "2. br log start", name)
		without := &manifest.Manifest{ID: "b"}
		require.NotContains(t, shown(&restore.Result{Manifest: without, Restored: true}, print), "br log", name)
		require.NotContains(t, shown(&restore.Result{Manifest: m}, print), "br log start", name)
	}
}
