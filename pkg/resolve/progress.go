package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Progress is what a resolve records for the one that resumes it after a kill.
//
// It is only valid for the PD cluster id and backup ts in it: a cluster recreated under the same name has other data
// and starts from scratch.
type Progress struct {
	ClusterID uint64     `json:"clusterID,string"`
	BackupTS  cluster.TS `json:"backupTS"`
	// Run is the last writer. A run that finds another's id here has been taken over.
	Run cluster.RunID `json:"run"`
	// Stamps are written before the first region is prepared, and never change: with others a finished region would not
	// be recognized.
	Stamps Stamps `json:"stamps"`
	// Prepared and Flashed are the finished ranges, merged, in key order and with encoded keys. What was done in the
	// last seconds before a kill is missing and is repeated, which changes nothing.
	Prepared []cluster.KeyRange `json:"prepared,omitempty"`
	Flashed  []cluster.KeyRange `json:"flashed,omitempty"`
	// Unchanged is the number of regions in Flashed that a flashback would not have changed.
	Unchanged int `json:"unchanged,omitempty"`
	// EarlyApply is written before the first region gets a leader; nil if the backup rules it out, or if written by a
	// version that did not look for it.
	EarlyApply *EarlyApply `json:"earlyApply,omitempty"`
}

// suits reports whether p is for this cluster and backup.
func (p *Progress) suits(clusterID uint64, backupTS cluster.TS) bool {
	return p.ClusterID == clusterID && p.BackupTS == backupTS &&
		p.Stamps.Start > backupTS && p.Stamps.Commit > p.Stamps.Start
}

// ProgressStore keeps the progress of resolving one cluster to one backup. All runs that may resume each other must use
// the same one (Config.Progress): the resolver loads it in the step "timestamps", saves it every few seconds from then
// on, and clears it in Thaw, when TiDB is up.
type ProgressStore interface {
	// Load returns what was saved last; ok is false if there is nothing.
	Load(ctx context.Context) (p Progress, ok bool, err error)
	// Save replaces what was saved before. It returns a Conflict if another run has saved since this one last saved or
	// loaded: the caller must stop. After any other error it may be retried.
	Save(ctx context.Context, p Progress) error
	// Clear removes it. It is idempotent.
	Clear(ctx context.Context) error
}

// NoProgress keeps nothing: every run starts from scratch.
type NoProgress struct{}

// Load finds nothing.
func (NoProgress) Load(context.Context) (Progress, bool, error) { return Progress{}, false, nil }

// Save drops it.
func (NoProgress) Save(context.Context, Progress) error { return nil }

// Clear has nothing to remove.
func (NoProgress) Clear(context.Context) error { return nil }
