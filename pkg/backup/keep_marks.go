package backup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// keepLimit is how long the marks may take to be stored before the proof of the cut is journalled.
const keepLimit = 10 * time.Second

// keepMarks stores the marks once the cluster is released, so that the proof names them: a process that resumes the run
// could not read them again. If they cannot be stored now it returns nil, and the step record tries again.
func (r *run) keepMarks(ctx context.Context, s *phase.Scope) *manifest.Marks {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	stored, err := r.storeMarks(ctx, s)
	if err != nil {
		s.Note("the marks are not stored yet, the step record tries again: %v", err)
	}
	return stored
}

// adoptMarks continues with the marks that an earlier process has stored. A backup is as good without.
func (r *run) adoptMarks(ctx context.Context, s *phase.Scope) {
	if r.proof.Marks == nil {
		return
	}
	set, err := r.catalog.Marks(ctx, &manifest.Manifest{ID: r.opts.Backup, Marks: r.proof.Marks})
	if err != nil {
		s.Warn("the backup has no marks, so a restore takes back every region: those of an earlier process cannot be read: %v", err)
		return
	}
	r.marks = markReading{set: set, stored: r.proof.Marks, regions: r.proof.Regions}
	r.result.Marks, r.result.Regions = set, r.proof.Regions
}

// dropMarks deletes the marks of a set of snapshots that was thrown away. If it cannot, those of the next set replace them; only
// the loss of the lock is an error.
func (r *run) dropMarks(ctx context.Context, s *phase.Scope) error {
	err := r.catalog.ForgetMarks(ctx, r.opts.Backup)
	if fenced.Refused(err) {
		return err
	}
	if err != nil {
		s.Log.Warn("the marks of a set that was thrown away are left", zap.Error(err))
	}
	return nil
}
