package catalog

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// VerifyEach marks the sealed entries that the VerifyKey did not sign as untrusted, with the reason in Problem. It
// reads each manifest, as Load does. An unreadable store is an error.
func (c Catalog) VerifyEach(ctx context.Context, entries []Entry) error {
	err := parallel.Each(ctx, maxReads, entries, func(ctx context.Context, i int, e Entry) error {
		if e.State != StateSealed {
			return nil
		}
		_, err := c.Load(ctx, e.ID)
		switch {
		case failure.Is(err, failure.Corrupt), failure.Is(err, failure.Usage):
			entries[i].State, entries[i].Problem = StateUntrusted, err.Error()
		case failure.Is(err, failure.NotFound), failure.Is(err, failure.Unready): // removed since it was listed
		case err != nil:
			return err
		}
		return nil
	})
	return failure.Annotate(err, "verify backups", c.Store.URL())
}
