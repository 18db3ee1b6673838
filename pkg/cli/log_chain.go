package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// logBackupsText lists which log backups the source had, and whether they cover the backup ts.
func logBackupsText(m *manifest.Manifest) string {
	parts := make([]string, len(m.LogBackups))
	for i, l := range m.LogBackups {
		parts[i] = oneLine(l.Name) + " " + logBackupText(l, m.BackupTS)
	}
	return strings.Join(parts, "; ")
}

func logBackupText(l manifest.LogBackup, ts cluster.TS) string {
	covers, behind := l.Covers(ts)
	late := behind.Round(time.Second)
	switch {
	case covers && behind == 0:
		return "covers the backup ts"
	case covers:
		return fmt.Sprintf("covers the backup ts once its log, %s behind it, has caught up", late)
	case l.Error != "":
		return "had failed: " + oneLine(l.Error)
	case l.Paused:
		return "was paused"
	case behind > 0:
		return fmt.Sprintf("was %s behind the backup ts", late)
	case l.StartTS != 0 && l.StartTS <= ts:
		return "ran; how far its log was is unknown"
	}
	return "started later, or its start is unknown"
}

// newLogChain is how to begin log backups again on a restored cluster; empty if the source had none.
func newLogChain(m *manifest.Manifest) string {
	if m == nil || len(m.LogBackups) == 0 {
		return ""
	}
	names := make([]string, len(m.LogBackups))
	for i, l := range m.LogBackups {
		names[i] = oneLine(l.Name)
	}
	return fmt.Sprintf(`
log backup %s of the source does not continue on this cluster, and its log cannot be restored onto it
(docs/point-in-time.md). A new log chain:
  1. choose a new, empty storage prefix
  2. br log start --task-name NAME --pd PD --storage PREFIX    (without --start-ts)
  3. br backup full --pd PD --storage BASE                     (the base of the chain)
`, strings.Join(names, ", "))
}
