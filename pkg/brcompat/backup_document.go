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

// document is a backup as it is at the root of the storage: br's document, and the manifest that is restored from.
type document struct {
	*manifest.BRMeta

	manifest *manifest.Manifest
}

// loadDocument reads the backupmeta at the root of the storage. Of a backup that tisnap made, the sealed manifest is
// restored from: it knows more, and has a digest. Kinds: NotFound, Corrupt, Unready.
func loadDocument(ctx context.Context, store objstore.Store) (*document, error) {
	c := catalog.Catalog{Store: store}
	m, err := c.LoadBR(ctx)
	if failure.Is(err, failure.NotFound) {
		return nil, failure.New(failure.NotFound, "load backup", store.URL(),
			"there is no %s: no backup was finished there", manifest.BRBackupMeta).
			WithHint("see that --storage is that of a Backup that is complete")
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

// withRoles is the manifest of a backup of br, with the type of every volume: what keeps the volumes of a store apart.
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

// ownManifest finds the manifest of the backup that br's document is of, or nil if br made it. One that is not sealed,
// or that names other snapshots, is refused.
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
