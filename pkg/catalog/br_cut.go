package catalog

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// PutCutForBR lists all snapshots of an unproven cut in a place that only the Operator's deletion of a Backup reads, so
// that a killed run's snapshots are deleted with the Backup. It must list all of the run's snapshots, because that
// deletion also removes the run's journal. It does not count as a backupmeta: the Operator does not end a hold by it,
// and neither the Operator nor br restores it; its backup ts is 0, which br refuses. Call ForgetCutForBR only after the
// snapshots were deleted.
func (c Catalog) PutCutForBR(ctx context.Context, m *manifest.Manifest) error {
	doc, err := manifest.BackupMeta(m)
	if err != nil {
		return err
	}
	return c.putCut(ctx, doc)
}

func (c Catalog) putCut(ctx context.Context, doc []byte) error {
	if strings.HasPrefix(c.Store.URL(), "file:") {
		return nil // a file and a folder cannot share a name, and the Operator's deletion does not reach local files
	}
	d, err := manifest.ParseBR(doc)
	if err != nil {
		return err
	}
	if d.Cluster != nil {
		d.Cluster.ResolvedTS = 0
	}
	if doc, err = d.Encode(); err != nil {
		return err
	}
	return c.createOnce(ctx, manifest.BRCutMeta, doc)
}

// ForgetCutForBR deletes what PutCutForBR wrote, if the run has the prefix. Idempotent.
func (c Catalog) ForgetCutForBR(ctx context.Context, run cluster.RunID) error {
	cut, err := c.cutOf(ctx, run)
	if err != nil || cut == nil {
		return err
	}
	return failure.Annotate(c.Store.DeleteVersion(ctx, cut.Key, cut.Version), "delete", cut.Key)
}

// cutOf returns PutCutForBR's object if it exists and the run has the prefix; nil otherwise.
func (c Catalog) cutOf(ctx context.Context, run cluster.RunID) (*objstore.Object, error) {
	held, err := c.HolderForBR(ctx)
	if err != nil || held == nil || held.Run != run {
		return nil, err
	}
	_, version, err := c.Store.Get(ctx, manifest.BRCutMeta)
	if failure.Is(err, failure.NotFound) {
		return nil, nil // as documented above
	}
	if err != nil {
		return nil, failure.Annotate(err, "read", manifest.BRCutMeta)
	}
	return &objstore.Object{Key: manifest.BRCutMeta, Version: version}, nil
}
