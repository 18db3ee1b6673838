package restore

import (
	"context"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// load reads the manifest, which must be sealed and intact.
func (r *run) load(ctx context.Context, s *phase.Scope) error {
	m, err := r.readManifest(ctx)
	if err != nil {
		return err
	}
	if operator := m.Kubernetes.Operator(); operator != "" && r.backup.multiCluster {
		return failure.New(failure.Unready, "load backup", string(m.ID),
			"its cluster is of TiDB Operator %s, which has no restore of volume snapshots", operator).
			WithHint("restore it by `tisnap restore`, which makes the cluster")
	}
	if m.Kubernetes.Operator() == manifest.Operator2 && m.PDState != nil {
		state := pd.WithoutEvictions(*m.PDState)
		copied := *m
		copied.PDState = &state
		m = &copied
	}
	elsewhere, err := m.Elsewhere()
	if err != nil {
		return failure.Annotate(err, "load backup", string(m.ID))
	}
	if len(elsewhere) > 0 && !r.backup.multiCluster {
		return failure.New(failure.Unready, "load backup", string(m.ID),
			"it is of %d stores, and %d more of the cluster are in other Kubernetes clusters",
			len(m.Source.Stores), len(elsewhere)).
			WithHint("restore all parts by a VolumeRestore of TiDB Operator, with the image of br that made them")
	}
	operator, err := r.operatorOf(ctx, s, m)
	if err != nil {
		return err
	}
	m, lost, err := forOperator(operator, m)
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		r.warn(s, fmt.Sprintf("not carried over into TiDB Operator %s.x, set it by --patch or when the cluster serves"+
			": %s", operator, strings.Join(lost, ", ")))
	}
	if r.Fill != nil {
		if m, err = r.Fill.OfClass(m); err != nil {
			return err
		}
	}
	objects, err := m.Kubernetes.Source()
	if err != nil {
		return failure.Annotate(err, "load backup", string(m.ID))
	}
	r.backup = source{Manifest: m, objects: objects, elsewhere: elsewhere, multiCluster: r.backup.multiCluster}
	for _, p := range m.Parts {
		s.Note("part %s is of %s, stores %v: all parts become one cluster here; a VolumeRestore reads it from %s",
			p.Name, p.Cluster, p.Stores, p.Location)
	}
	s.Note("backup %s of %s: %d stores, %d volumes, backup ts %s", m.ID, m.Source.Cluster, len(m.Source.Stores),
		len(m.Snapshots), m.BackupTS)
	return nil
}

// readManifest returns the manifest that the caller has, that of the archive, or the sealed one.
func (r *run) readManifest(ctx context.Context) (*manifest.Manifest, error) {
	switch {
	case r.opts.Manifest != nil:
		return r.opts.Manifest, nil
	case r.Archive != nil:
		return r.Archive.Manifest(r.region())
	}
	return r.catalog().Load(ctx, r.opts.Backup)
}
