package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// SetRestoredAside takes the document of an earlier Restore's volumes out of TiDB Operator's way: when a later Restore
// of the same backup fails, the Operator deletes the volumes that are named there, whosever they are. The document is
// kept beside it, under a name made of its content, which is returned; "" if there was none. One that is written
// meanwhile stays: Conflict.
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
