package catalog

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// PutCutForBR names all snapshots of a cut that is not proven yet where nothing but the Operator's deletion of a Backup
// looks: by it the snapshots of a run that is killed are deleted with the Backup. It has to name all snapshots of the
// run, as that deletion removes the run's journal, too. It is no backupmeta to anybody: the Operator ends no hold by
// it, and neither it nor br restores it; its backup ts is 0, which br refuses. Deletes by ForgetCutForBR come after
// those of the snapshots.
func (c Catalog) PutCutForBR(ctx context.Context, m *manifest.Manifest) error {
	doc, err := manifest.BackupMeta(m)
	if err != nil {
		return err
	}
	return c.putCut(ctx, doc)
}

func (c Catalog) putCut(ctx context.Context, doc []byte) error {
	if strings.HasPrefix(c.Store.URL(), "file:") {
		return nil // a file cannot be beside a folder of its name, and the Operator's deletion reaches no files
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

// cutOf is the object of PutCutForBR, if it is there and the run has the prefix; nil if not.
func (c Catalog) cutOf(ctx context.Context, run cluster.RunID) (*objstore.Object, error) {
	held, err := c.HolderForBR(ctx)
	if err != nil || held == nil || held.Run != run {
		return nil, err
	}
	_, version, err := c.Store.Get(ctx, manifest.BRCutMeta)
	if failure.Is(err, failure.NotFound) {
		return nil, nil // as the comment says
	}
	if err != nil {
		return nil, failure.Annotate(err, "read", manifest.BRCutMeta)
	}
	return &objstore.Object{Key: manifest.BRCutMeta, Version: version}, nil
}
