package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// LoadBR returns the manifest of the backup that br itself made at the root of the prefix, under an id derived from its
// backup ts. It returns NotFound without br's backupmeta; see manifest.FromBackupMeta.
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

// LoadOwn returns the sealed manifest behind the backupmeta at the root of the prefix; nil if br made it. This
// program's backups are recognized by the prefix's lock, by their backup ts among the backups below it, or by their
// files if the prefix is a backup's own folder. An unsealed one is Unready: its backupmeta exists before its snapshots
// are completed.
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

// loadFolder is Load for a prefix that is a backup's folder; nil if it is not one.
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
		return nil, nil // as documented above
	}
	m, err := manifest.Open(files[manifest.ManifestFile], files[manifest.SealFile])
	return m, failure.Annotate(err, "load backup", c.Store.URL())
}
