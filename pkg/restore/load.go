package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// load reads the manifest, which must be sealed and intact.
func (r *run) load(ctx context.Context, s *phase.Scope) error {
	m := r.opts.Manifest
	if m == nil {
		var err error
		if m, err = r.catalog().Load(ctx, r.opts.Backup); err != nil {
			return err
		}
	}
	if operator := m.Kubernetes.Operator(); operator != "" {
		return failure.New(failure.Unready, "load backup", string(m.ID),
			"its cluster is of TiDB Operator %s, which this version does not restore", operator).
			WithHint("keep the backup, and restore it by a later version of tisnap: see its CHANGELOG.md")
	}
	elsewhere, err := m.Elsewhere()
	if err != nil {
		return failure.Annotate(err, "load backup", string(m.ID))
	}
	if len(elsewhere) > 0 && !r.backup.parts {
		return failure.New(failure.Unready, "load backup", string(m.ID),
			"it is of %d stores, and %d more of the cluster are in other Kubernetes clusters",
			len(m.Source.Stores), len(elsewhere)).
			WithHint("restore all parts by a VolumeRestore of TiDB Operator, with the image of br that made them")
	}
	r.backup.Manifest, r.backup.elsewhere = m, elsewhere
	s.Note("backup %s of %s: %d stores, %d volumes, backup ts %s", m.ID, m.Source.Cluster, len(m.Source.Stores),
		len(m.Snapshots), m.BackupTS)
	return nil
}
