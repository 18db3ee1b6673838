package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Document is a backup's manifest, byte by byte, and its seal's signature in minisign's format, "" if it is not signed.
type Document struct {
	Manifest  []byte
	Signature string
}

// SHA256 is the manifest's digest, hexadecimal.
func (d Document) SHA256() string { return digest(d.Manifest) }

// SignatureSHA256 is the signature's digest, hexadecimal; "" if there is none.
func (d Document) SignatureSHA256() string {
	if d.Signature == "" {
		return ""
	}
	return digest([]byte(d.Signature))
}

func digest(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// Origin returns the nearest signed source of a copy as it is kept with it. It is Corrupt unless manifest and signature
// are those that the copy's manifest names, and NotFound if there is none. A copy of an older tisnap names no
// signature, and any is returned.
func (c Catalog) Origin(ctx context.Context, m *manifest.Manifest) (Document, error) {
	document, signature := manifest.OriginKeys(m.ID)
	doc, _, err := c.Store.Get(ctx, document)
	if err != nil {
		return Document{}, failure.Annotate(err, "read signed source", string(m.ID))
	}
	signed, _, err := c.Store.Get(ctx, signature)
	if err != nil {
		return Document{}, failure.Annotate(err, "read signed source", string(m.ID))
	}
	kept, of := Document{doc, string(signed)}, m.CopyOf.FirstSigned()
	if of == nil || kept.SHA256() != of.ManifestSHA256 {
		return Document{}, failure.New(failure.Corrupt, "read signed source", string(m.ID),
			"%s is not the manifest that it was copied from", document)
	}
	if of.SignatureSHA256 != "" && kept.SignatureSHA256() != of.SignatureSHA256 {
		return Document{}, failure.New(failure.Corrupt, "read signed source", string(m.ID),
			"%s is not the signature of what it was copied from", signature)
	}
	return kept, nil
}

// PutOrigin stores the signed source of a copy that is not recorded yet.
func (c Catalog) PutOrigin(ctx context.Context, id cluster.BackupID, o Document) error {
	document, signature := manifest.OriginKeys(id)
	err := c.putOver(ctx, document, o.Manifest)
	if err == nil {
		err = c.putOver(ctx, signature, []byte(o.Signature))
	}
	return failure.Annotate(err, "store signed source", string(id))
}
