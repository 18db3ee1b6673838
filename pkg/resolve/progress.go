package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Progress is what a resolve leaves behind for the one that resumes it after a kill.
//
// It is of use only for the cluster whose PD has this cluster id, and for this backup ts: a cluster that was
// made again under the same name has other data and begins from the start.
type Progress struct {
	ClusterID uint64     `json:"clusterID,string"`
	BackupTS  cluster.TS `json:"backupTS"`
	// Run is the last writer. One that finds another's name in the place of its own has been taken over.
	Run cluster.RunID `json:"run"`
	// Stamps are written before the first region is prepared, and never change: with other ones a region
	// that is done would not be known as such.
	Stamps Stamps `json:"stamps"`
	// Prepared and Flashed are the ranges that are done, as few as there can be, in key order and with
	// encoded keys. What was done in the last seconds before a kill is missing and is done again, which
	// changes nothing.
	Prepared []cluster.KeyRange `json:"prepared,omitempty"`
	Flashed  []cluster.KeyRange `json:"flashed,omitempty"`
	// Unchanged is how many regions are in Flashed because a flashback would not have changed them.
	Unchanged int `json:"unchanged,omitempty"`
	// EarlyApply is written before the first region gets a leader; nil if the backup rules it out, and in what a
	// version wrote that did not look.
	EarlyApply *EarlyApply `json:"earlyApply,omitempty"`
}

// suits reports whether p is of this cluster and backup.
func (p *Progress) suits(clusterID uint64, backupTS cluster.TS) bool {
	return p.ClusterID == clusterID && p.BackupTS == backupTS &&
		p.Stamps.Start > backupTS && p.Stamps.Commit > p.Stamps.Start
}

// ProgressStore keeps the progress of resolving one cluster to one backup. Give the same store to every run
// that may have to resume (Config.Progress): the resolver loads it in the step "timestamps", saves it every
// few seconds from then on, and clears it in Thaw, when TiDB is up.
type ProgressStore interface {
	// Load reads what was saved last; ok is false if there is nothing.
	Load(ctx context.Context) (p Progress, ok bool, err error)
	// Save writes over what was saved before. It is a Conflict if another run has saved since this one did
	// so or loaded: the caller must stop. After any other error it may be called again.
	Save(ctx context.Context, p Progress) error
	// Clear removes it. Clearing what is not there succeeds.
	Clear(ctx context.Context) error
}

// NoProgress keeps nothing: every run begins from the start.
type NoProgress struct{}

// Load finds nothing.
func (NoProgress) Load(context.Context) (Progress, bool, error) { return Progress{}, false, nil }

// Save drops it.
func (NoProgress) Save(context.Context, Progress) error { return nil }

// Clear has nothing to remove.
func (NoProgress) Clear(context.Context) error { return nil }
