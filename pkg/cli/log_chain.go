package cli

import (
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/manifest"
)

// logBackupsText lists which log backups the source had, and whether they cover the backup ts.
func logBackupsText(m *manifest.Manifest) string {
	parts := make([]string, len(m.LogBackups))
	for i, l := range m.LogBackups {
		switch {
		case l.Covers(m.BackupTS):
			parts[i] = oneLine(l.Name) + " covers the backup ts"
		case l.Paused:
			parts[i] = oneLine(l.Name) + " was paused"
		default:
			parts[i] = oneLine(l.Name) + " started later, or its start is unknown"
		}
	}
	return strings.Join(parts, "; ")
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
