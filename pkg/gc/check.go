package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/catalog"
)

// Check finds the sealed backups of this region whose snapshots are gone, as Collect does, and changes nothing. If
// there are any, they are returned with an error of kind Corrupt that names them.
func Check(ctx context.Context, d Deps) ([]Missing, error) {
	w := &world{}
	if err := w.readBackups(ctx, catalog.Catalog{Store: d.Store}); err != nil {
		return nil, err
	}
	gone, err := missing(ctx, d, w, nil)
	if err != nil {
		return nil, err
	}
	return gone, (&Report{Missing: gone}).broken()
}
