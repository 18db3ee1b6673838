package drill

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/storage"
)

// Orphans lists the cages of this storage that have expired, and of whose runs it has no journal: Clean cannot remove
// them.
func Orphans(ctx context.Context, store objstore.Store, cages Cages, now time.Time) ([]cage.Cage, error) {
	const op = "find expired cages"
	of, err := storage.Read(ctx, store)
	if err != nil {
		return nil, failure.Annotate(err, op, store.URL())
	}
	all, err := cages.List(ctx)
	if err != nil {
		return nil, failure.Annotate(err, op, store.URL())
	}
	var out []cage.Cage
	for _, c := range all {
		if c.Storage == "" || c.Run == "" || !of.Owns(c.Storage) || c.Deleting || c.Expires.After(now) {
			continue
		}
		_, err := runs.Read(ctx, store, c.Run)
		switch {
		case failure.Is(err, failure.NotFound):
			out = append(out, c)
		case err != nil && !failure.Is(err, failure.Corrupt):
			return nil, failure.Annotate(err, op, c.Namespace)
		}
	}
	return out, nil
}
