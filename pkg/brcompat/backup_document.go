package brcompat

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// document is the backup at the root of the storage: br's document, and the manifest to restore from.
type document struct {
	*manifest.BRMeta

	manifest *manifest.Manifest
}

// loadDocument reads the backupmeta at the root of the storage. For a backup made by tisnap it restores from the sealed
// manifest, which has more detail and a digest. Kinds: NotFound, Corrupt, Unready.
func loadDocument(ctx context.Context, store objstore.Store) (*document, error) {
	c := catalog.Catalog{Store: store}
	m, err := c.LoadBR(ctx)
	if failure.Is(err, failure.NotFound) {
		return nil, failure.New(failure.NotFound, "load backup", store.URL(),
			"there is no %s: no backup was completed there", manifest.BRBackupMeta).
			WithHint("check that --storage points to a completed Backup")
	}
	if err != nil {
		return nil, err
	}
	d, err := manifest.ParseBR(m.ClusterMeta)
	if err != nil {
		return nil, err
	}
	own, err := ownManifest(ctx, c, m)
	if err != nil {
		return nil, err
	}
	if own != nil {
		return &document{BRMeta: d, manifest: own}, nil
	}
	m, err = withRoles(d, m.ID)
	return &document{BRMeta: d, manifest: m}, err
}

// withRoles returns the manifest of a backup made by br, with the type of every volume, which distinguishes a
// store's volumes.
func withRoles(d *manifest.BRMeta, id cluster.BackupID) (*manifest.Manifest, error) {
	if err := fillRoles(d); err != nil {
		return nil, err
	}
	doc, err := d.Encode()
	if err != nil {
		return nil, err
	}
	return manifest.FromBackupMeta(id, doc)
}

// ownManifest returns the manifest behind br's document, or nil if br made the backup. It refuses one that is unsealed
// or names other snapshots.
func ownManifest(ctx context.Context, c catalog.Catalog, br *manifest.Manifest) (*manifest.Manifest, error) {
	own, err := c.LoadOwn(ctx, br.BackupTS)
	if err != nil || own == nil {
		return nil, err
	}
	if !slices.Equal(sortedSnapshots(own), sortedSnapshots(br)) {
		return nil, failure.New(failure.Corrupt, "load backup", string(own.ID),
			"%s names other snapshots than its manifest", manifest.BRBackupMeta).
			WithHint("restore another backup")
	}
	return own, nil
}

func sortedSnapshots(m *manifest.Manifest) []cluster.SnapshotID {
	return slices.Sorted(slices.Values(m.SnapshotIDs()))
}

// size is the sum of the sizes of all volumes, in GiB.
func (d *document) size() int64 { return d.manifest.SizeGiB() }
