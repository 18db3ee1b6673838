package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// SetRestoredAside moves the document of an earlier Restore's volumes out of TiDB Operator's way: if a later Restore of
// the same backup fails, the Operator deletes the volumes that it names, whoever owns them. It keeps the document
// beside it, under a content-based name, which it returns; "" if there was none. A document written meanwhile stays:
// Conflict.
func (c Catalog) SetRestoredAside(ctx context.Context) (string, error) {
	doc, version, err := c.Store.Get(ctx, manifest.BRRestoreMeta)
	if failure.Is(err, failure.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", failure.Annotate(err, "read", manifest.BRRestoreMeta)
	}
	aside := fmt.Sprintf("%s.%.6x", manifest.BRRestoreMeta, sha256.Sum256(doc))
	if err := c.createOnce(ctx, aside, doc); err != nil {
		return "", err
	}
	err = c.Store.DeleteVersion(ctx, manifest.BRRestoreMeta, version)
	return aside, failure.Annotate(err, "set aside", manifest.BRRestoreMeta)
}
