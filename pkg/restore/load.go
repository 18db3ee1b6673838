package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/phase"
)

// load reads the manifest, which must be sealed and whole.
func (r *run) load(ctx context.Context, s *phase.Scope) error {
	m := r.opts.Manifest
	if m == nil {
		var err error
		if m, err = r.catalog.Load(ctx, r.opts.Backup); err != nil {
			return err
		}
	}
	r.manifest = m
	s.Note("backup %s of %s: %d stores, %d volumes, backup ts %s", m.ID, m.Source.Cluster, len(m.Source.Stores), len(m.Snapshots), m.BackupTS)
	return nil
}
