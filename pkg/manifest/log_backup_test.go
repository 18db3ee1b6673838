package manifest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestLogBackupCovers_OnlyWhatAdvancesSinceBefore(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	ts := func(ago time.Duration) cluster.TS { return cluster.MakeTS(at.Add(-ago), 0) }
	for name, row := range map[string]struct {
		log    manifest.LogBackup
		covers bool
		behind time.Duration
	}{
		"has all":               {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(0)}, true, 0},
		"is beyond":             {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(-time.Minute)}, true, 0},
		"started right then":    {manifest.LogBackup{StartTS: ts(0), Checkpoint: ts(0)}, true, 0},
		"is behind as usual":    {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(30 * time.Minute)}, true, 30 * time.Minute},
		"is far behind":         {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(31 * time.Minute)}, false, 31 * time.Minute},
		"started later":         {manifest.LogBackup{StartTS: ts(-time.Minute), Checkpoint: ts(-time.Minute)}, false, 0},
		"was paused":            {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(0), Paused: true}, false, 0},
		"had failed":            {manifest.LogBackup{StartTS: ts(time.Hour), Checkpoint: ts(0), Error: "no space"}, false, 0},
		"start is unknown":      {manifest.LogBackup{Checkpoint: ts(0)}, false, 0},
		"checkpoint is unknown": {manifest.LogBackup{StartTS: ts(time.Hour)}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			covers, behind := row.log.Covers(ts(0))
			require.Equal(t, row.covers, covers)
			require.Equal(t, row.behind, behind)
		})
	}
}
