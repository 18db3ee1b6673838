package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/catalog"
)

// Check finds this region's sealed backups whose snapshots are gone, as Collect does, without changing anything. If
// there are any, it returns them with a Corrupt error that names them.
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
