package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// LoadBR returns the manifest of the backup that br itself made at the root of the prefix, under an id that
// is made of its backup ts. It is NotFound if br's backupmeta is not there; see manifest.FromBackupMeta.
func (c Catalog) LoadBR(ctx context.Context) (*manifest.Manifest, error) {
	doc, _, err := c.Store.Get(ctx, manifest.BRBackupMeta)
	if err != nil {
		return nil, failure.Annotate(err, "load backup of br", c.Store.URL())
	}
	d, err := manifest.ParseBR(doc)
	if err == nil {
		err = d.Validate()
	}
	if err != nil {
		return nil, failure.Annotate(err, "load backup of br", c.Store.URL())
	}
	return manifest.FromBackupMeta(cluster.BackupID(fmt.Sprintf("br-%d", d.Cluster.ResolvedTS)), doc)
}

// LoadOwn returns the sealed manifest of the backup that the backupmeta at the root of the prefix is of; nil if br made
// it. A backup of this program is known by the lock of the prefix, by its backup ts among the backups below it, or by
// its files if the prefix is a backup's own folder. One that is not sealed is Unready: its backupmeta is there before
// its snapshots are completed.
func (c Catalog) LoadOwn(ctx context.Context, ts cluster.TS) (*manifest.Manifest, error) {
	if m, err := c.loadFolder(ctx); m != nil || err != nil {
		return m, err
	}
	held, err := c.HolderForBR(ctx)
	if err != nil {
		return nil, err
	}
	if held != nil {
		return c.Load(ctx, held.ID)
	}
	entries, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.BackupTS == ts })
	if i < 0 {
		return nil, nil // br made it
	}
	return c.Load(ctx, entries[i].ID)
}

// loadFolder is Load in a prefix that is the folder of a backup; nil if it is none.
func (c Catalog) loadFolder(ctx context.Context) (*manifest.Manifest, error) {
	files := map[string][]byte{}
	for _, name := range []string{manifest.ClaimFile, manifest.ManifestFile, manifest.SealFile} {
		body, _, err := c.Store.Get(ctx, name)
		if err != nil && !failure.Is(err, failure.NotFound) {
			return nil, failure.Annotate(err, "load backup", c.Store.URL())
		}
		if err == nil {
			files[name] = body
		}
	}
	if len(files) == 0 {
		return nil, nil // as the comment says
	}
	m, err := manifest.Open(files[manifest.ManifestFile], files[manifest.SealFile])
	return m, failure.Annotate(err, "load backup", c.Store.URL())
}
