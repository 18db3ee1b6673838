package manifest

import "github.com/tisnap/tisnap/pkg/cluster"

// LogBackup is a log backup of the source, of `br log`, at the time of the backup.
type LogBackup struct {
	Name    string     `json:"name"`
	StartTS cluster.TS `json:"startTS,omitempty"` // 0 if it could not be read
	Paused  bool       `json:"paused,omitempty"`
}

// Covers reports whether the log backup started at or below this timestamp and was not paused. Its checkpoint may
// still have been behind.
func (l LogBackup) Covers(ts cluster.TS) bool { return l.StartTS != 0 && l.StartTS <= ts && !l.Paused }
