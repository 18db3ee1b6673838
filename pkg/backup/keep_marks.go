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

// keep stores the marks once the cluster is released, so that the proof names them: a process that resumes the run
// could not read them again. If they cannot be stored now it returns nil, and the step record tries again.
func (m *marker) keep(ctx context.Context, s *phase.Scope) *manifest.Marks {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	stored, err := m.store(ctx, s)
	if err != nil {
		s.Note("could not store the marks yet; the step record retries: %v", err)
	}
	return stored
}

// adopt continues with the marks, of so many regions, that an earlier process has stored; nil is none. A backup is as
// good without.
func (m *marker) adopt(ctx context.Context, s *phase.Scope, stored *manifest.Marks, regions int) {
	if stored == nil {
		return
	}
	set, err := m.catalog.Marks(ctx, &manifest.Manifest{ID: m.opts.Backup, Marks: stored})
	if err != nil {
		s.Warn("the backup has no marks, so a restore flashes back every region: those of an earlier process "+
			"cannot be read: %v", err)
		return
	}
	m.markReading = markReading{set: set, stored: stored, regions: regions}
}

// drop deletes the marks of a set of snapshots that was thrown away. If it cannot, those of the next set replace them;
// only the loss of the lock is an error.
func (m *marker) drop(ctx context.Context, s *phase.Scope) error {
	err := m.catalog.ForgetMarks(ctx, m.opts.Backup)
	if fenced.Refused(err) {
		return err
	}
	if err != nil {
		s.Log.Warn("the marks of a set that was thrown away are left", zap.Error(err))
	}
	return nil
}
