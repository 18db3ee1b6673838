package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Origin is the manifest of a signed backup, byte by byte, and its signature in minisign's format.
type Origin struct {
	Document  []byte
	Signature string
}

// Signature returns that of a sealed backup, whose manifest is doc; "" if it is not signed. The key of the signature
// is not looked at.
func (c Catalog) Signature(ctx context.Context, id cluster.BackupID, doc []byte) (string, error) {
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(id))
	if err == nil {
		_, err = manifest.Open(doc, seal)
	}
	if err != nil {
		return "", failure.Annotate(err, "read signature", string(id))
	}
	s, err := manifest.DecodeSeal(seal)
	if err != nil {
		return "", failure.Annotate(err, "read signature", string(id))
	}
	return s.Signature, nil
}

// Origin returns the nearest signed source of a copy as it is kept with it. It is Corrupt unless it is the one that
// the copy's manifest names, and NotFound if there is none.
func (c Catalog) Origin(ctx context.Context, m *manifest.Manifest) (Origin, error) {
	document, signature := manifest.OriginKeys(m.ID)
	doc, _, err := c.Store.Get(ctx, document)
	if err != nil {
		return Origin{}, failure.Annotate(err, "read signed source", string(m.ID))
	}
	sum, of := sha256.Sum256(doc), m.CopyOf.FirstSigned()
	if of == nil || hex.EncodeToString(sum[:]) != of.ManifestSHA256 {
		return Origin{}, failure.New(failure.Corrupt, "read signed source", string(m.ID),
			"%s is not the manifest that it was copied from", document)
	}
	signed, _, err := c.Store.Get(ctx, signature)
	return Origin{doc, string(signed)}, failure.Annotate(err, "read signed source", string(m.ID))
}

// PutOrigin stores the signed source of a copy that is not recorded yet.
func (c Catalog) PutOrigin(ctx context.Context, id cluster.BackupID, o Origin) error {
	document, signature := manifest.OriginKeys(id)
	err := c.putOver(ctx, document, o.Document)
	if err == nil {
		err = c.putOver(ctx, signature, []byte(o.Signature))
	}
	return failure.Annotate(err, "store signed source", string(id))
}
