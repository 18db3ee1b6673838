package catalog

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// usedByBR returns the refusal of a prefix that holds a marker. If one of our runs left it, the error names the run and
// the remedy, for a Job recreated after a kill.
func (c Catalog) usedByBR(ctx context.Context, id cluster.BackupID, marker string) error {
	refused := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Conflict, "claim backup", string(id), format, args...)
	}
	held, err := c.HolderForBR(ctx)
	if err != nil {
		return err
	}
	if held == nil {
		return refused("%s is used by br: it holds %s", c.Store.URL(), marker).
			WithHint("choose another prefix with --storage")
	}
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(held.ID))
	switch {
	case err == nil && manifest.DecodeTombstone(seal) == nil:
		return refused("%s is used: it holds %s of backup %s, which is sealed", c.Store.URL(), marker, held.ID).
			WithHint("choose another prefix with --storage")
	case err != nil && !failure.Is(err, failure.NotFound):
		return failure.Annotate(err, "claim backup", string(id))
	}
	return refused("%s is used: it holds %s of backup %s, which is not sealed: its run %s is active, or died",
		c.Store.URL(), marker, held.ID, held.Run).
		WithHint("if it died, delete what it left and retry the same backup: tisnap gc "+
			"--older-than 0s --yes --storage %s", c.Store.URL())
}
