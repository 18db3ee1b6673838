package catalog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Load returns the manifest of a sealed backup, verified against its seal. An unknown id is NotFound, with a hint that
// names similar ones; otherwise the kinds are those of manifest.Open. With a VerifyKey, a backup that this key did not
// sign is Corrupt.
func (c Catalog) Load(ctx context.Context, id cluster.BackupID) (*manifest.Manifest, error) {
	_, m, err := c.Document(ctx, id)
	return m, err
}

// Document is Load, and returns the manifest as it is stored, with the signature of the seal that it was verified
// against. Without a VerifyKey the signature itself is not verified.
func (c Catalog) Document(ctx context.Context, id cluster.BackupID) (Document, *manifest.Manifest, error) {
	if err := manifest.CheckID(id); err != nil {
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return Document{}, nil, c.unsealed(ctx, id)
	}
	if err != nil {
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	if manifest.DecodeTombstone(seal) != nil {
		_, err := manifest.Open(nil, seal) // reports it, whatever is left of the manifest
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	doc, _, err := c.Store.Get(ctx, manifest.ManifestKey(id))
	if failure.Is(err, failure.NotFound) {
		err = failure.New(failure.Corrupt, "load backup", string(id), "its manifest is gone: %w", err).WithHint(damaged)
		return Document{}, nil, err
	}
	if err != nil {
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	m, err := c.open(doc, seal)
	if err == nil && m.ID != id {
		err = failure.New(failure.Corrupt, "", "", "the manifest stored there is of backup %s", m.ID)
	}
	if failure.Is(err, failure.Corrupt) && failure.HintOf(err) == "" {
		err = failure.New(failure.Corrupt, "", "", "%w", err).WithHint(damaged)
	}
	if err != nil {
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	s, err := manifest.DecodeSeal(seal)
	if err != nil {
		return Document{}, nil, failure.Annotate(err, "load backup", string(id))
	}
	return Document{doc, s.Signature}, m, nil
}

// damaged is the remedy for a backup whose objects cannot be trusted.
const damaged = "restore another backup; the snapshots of this one are still tagged with its id"

// Unsealed returns a backup's manifest without checking its seal: to resume, describe or delete it, never to restore
// it. It returns NotFound if there is no manifest yet.
func (c Catalog) Unsealed(ctx context.Context, id cluster.BackupID) (*manifest.Manifest, error) {
	doc, _, err := c.Store.Get(ctx, manifest.ManifestKey(id))
	if err != nil {
		return nil, failure.Annotate(err, "read manifest", string(id))
	}
	m, err := manifest.Decode(doc)
	return m, failure.Annotate(err, "read manifest", string(id))
}

// PutManifest stores the manifest and its br document. Storing the same again succeeds; a different one under the same
// id is a Conflict.
func (c Catalog) PutManifest(ctx context.Context, m *manifest.Manifest) error {
	doc, err := manifest.Encode(m)
	if err != nil {
		return err
	}
	meta, err := manifest.BackupMeta(m)
	if err != nil {
		return err
	}
	if err := c.putOnce(ctx, manifest.ManifestKey(m.ID), doc); err != nil {
		return failure.Annotate(err, "store manifest", string(m.ID))
	}
	err = c.putOnce(ctx, manifest.BackupMetaKey(m.ID), meta)
	return failure.Annotate(err, "store manifest", string(m.ID))
}

// PutMarks stores the marks of a backup not recorded yet, replacing those of an earlier attempt, and returns the
// manifest's description of them.
func (c Catalog) PutMarks(
	ctx context.Context, id cluster.BackupID, set *marks.Set, ts cluster.TS,
) (*manifest.Marks, error) {
	body, err := set.Encode()
	if err == nil {
		err = c.putOver(ctx, manifest.MarksKey(id), body)
	}
	if err != nil {
		return nil, failure.Annotate(err, "store marks", string(id))
	}
	return manifest.NewMarks(body, set.Len(), ts), nil
}

// CopyMarks stores the marks of another storage's backup, byte by byte, as those of its copy here, which is not
// recorded yet. It is NotFound if the source has none, and Corrupt if they are not those that the manifest names.
func (c Catalog) CopyMarks(ctx context.Context, from Catalog, m *manifest.Manifest) error {
	body, err := from.marksOf(ctx, m)
	if err == nil {
		err = c.putOver(ctx, manifest.MarksKey(m.ID), body)
	}
	return failure.Annotate(err, "copy marks", string(m.ID))
}

// Marks returns a backup's marks. It returns Corrupt or NotFound if they are not those that the manifest was sealed
// with: marks are optional.
func (c Catalog) Marks(ctx context.Context, m *manifest.Manifest) (*marks.Set, error) {
	body, err := c.marksOf(ctx, m)
	if err != nil {
		return nil, failure.Annotate(err, "read marks", string(m.ID))
	}
	set, err := marks.Decode(body)
	return set, failure.Annotate(err, "read marks", string(m.ID))
}

// marksOf reads the marks as they are stored, if they are those of the manifest.
func (c Catalog) marksOf(ctx context.Context, m *manifest.Manifest) ([]byte, error) {
	body, _, err := c.Store.Get(ctx, manifest.MarksKey(m.ID))
	if failure.Is(err, failure.NotFound) {
		// the prefix may be the backup's own folder; the digest shows whether these are its marks
		body, _, err = c.Store.Get(ctx, manifest.MarksFile)
	}
	if err != nil {
		return nil, err
	}
	return body, m.Marks.Check(body)
}

// PutReport stores the report of a run that made the backup or restored it, replacing that of an earlier process of the
// run. It is not part of the backup, and stays when that is deleted.
func (c Catalog) PutReport(ctx context.Context, id cluster.BackupID, run cluster.RunID, report []byte) error {
	return failure.Annotate(c.putOver(ctx, manifest.ReportKey(id, run), report), "store report", string(run))
}

func (c Catalog) putOver(ctx context.Context, key string, body []byte) error {
	_, version, err := objstore.ToReplace(ctx, c.Store, key)
	if err != nil {
		return err
	}
	return objstore.WriteOver(ctx, c.Store, key, body, version)
}

func (c Catalog) putOnce(ctx context.Context, key string, body []byte) error {
	_, err := c.Store.Create(ctx, key, body)
	if err == nil {
		return nil
	}
	stored, _, readErr := c.Store.Get(ctx, key)
	switch {
	case readErr == nil && bytes.Equal(stored, body):
		return nil
	case failure.Is(err, failure.Conflict) && readErr != nil && !failure.Is(readErr, failure.NotFound):
		return readErr // it may be ours: a retry finds out
	}
	return err
}

// unsealed distinguishes an unfinished backup from one that does not exist.
func (c Catalog) unsealed(ctx context.Context, id cluster.BackupID) error {
	entries, err := c.Store.List(ctx, manifest.BackupsPrefix)
	if err != nil {
		return failure.Annotate(err, "load backup", string(id))
	}
	var ids []string
	for _, o := range entries {
		if known, _, ok := manifest.SplitBackupKey(o.Key); ok && !slices.Contains(ids, string(known)) {
			ids = append(ids, string(known))
		}
	}
	if slices.Contains(ids, string(id)) {
		_, err := manifest.Open(nil, nil)
		return failure.Annotate(err, "load backup", string(id))
	}
	hint := "see `tisnap list`"
	if near := failure.Nearest(string(id), ids, 3); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s? see `tisnap list`", strings.Join(near, ", "))
	}
	return failure.New(failure.NotFound, "load backup", string(id), "no such backup in %s", c.Store.URL()).
		WithHint("%s", hint)
}
