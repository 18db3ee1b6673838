package manifest

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// LogBackup is a log backup of the source, of `br log`, at the time of the backup.
type LogBackup struct {
	Name    string     `json:"name"`
	StartTS cluster.TS `json:"startTS,omitempty"` // 0 if it could not be read
	Paused  bool       `json:"paused,omitempty"`
	// Checkpoint is the timestamp up to which its log had all changes; 0 if it is unknown, as in older backups.
	Checkpoint cluster.TS `json:"checkpoint,omitempty"`
	// Error is the one that it had and that nothing had cleared; Storage is where its log is, without credentials.
	Error   string `json:"error,omitempty"`
	Storage string `json:"storage,omitempty"`
}

// CoveredBy names the log backups of the source that cover the backup ts.
func (m *Manifest) CoveredBy() (names []string) {
	for _, l := range m.LogBackups {
		if covers, _ := l.Covers(m.BackupTS); covers {
			names = append(names, l.Name)
		}
	}
	return names
}

// maxLag is how far the checkpoint of a log backup that advances may be behind: at 30 minutes TiDB's alert is critical.
const maxLag = 30 * time.Minute

// Covers reports whether the log has all changes at this timestamp, or will once its checkpoint has advanced by what it
// was behind: it started at or below it, was not paused, had no error, and was at most 30 minutes behind.
func (l LogBackup) Covers(ts cluster.TS) (covers bool, behind time.Duration) {
	if l.StartTS == 0 || l.StartTS > ts || l.Paused || l.Error != "" || l.Checkpoint == 0 {
		return false, 0
	}
	if l.Checkpoint < ts {
		behind = ts.Time().Sub(l.Checkpoint.Time())
	}
	return behind <= maxLag, behind
}
