package catalog

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Seal seals the manifest stored under id: it reads it back, so that the seal covers what a restore will read.
// dataBytes is the data in all snapshots, 0 if unknown. An already sealed backup stays unchanged; that is a success if
// the seal matches, and is signed with the SignKey if there is one.
func (c Catalog) Seal(ctx context.Context, id cluster.BackupID, at time.Time, dataBytes int64) error {
	doc, _, err := c.Store.Get(ctx, manifest.ManifestKey(id))
	if err != nil {
		return failure.Annotate(err, "seal backup", string(id))
	}
	seal, err := manifest.Seal(doc, at, dataBytes)
	if err == nil && c.SignKey != nil {
		seal, err = manifest.Sign(doc, seal, c.SignKey)
	}
	if err != nil {
		return failure.Annotate(err, "seal backup", string(id))
	}
	_, err = c.Store.Create(ctx, manifest.SealKey(id), seal)
	if err == nil {
		return nil
	}
	stored, _, readErr := c.Store.Get(ctx, manifest.SealKey(id))
	if readErr != nil {
		return failure.Annotate(err, "seal backup", string(id))
	}
	c.VerifyKey = c.SignKey.VerifyKey()
	_, err = c.open(doc, stored)
	return failure.Annotate(err, "seal backup", string(id))
}

// open is manifest.Open for backups signed by the VerifyKey.
func (c Catalog) open(doc, seal []byte) (*manifest.Manifest, error) {
	m, err := manifest.Open(doc, seal)
	if err == nil && c.VerifyKey != nil {
		err = manifest.Verify(doc, seal, c.VerifyKey)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
