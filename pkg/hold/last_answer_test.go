package hold_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A store forgets its share, the next renewal takes it again, and the hold is released before that renewal is answered:
// the store's word at the end is of the new share, and only the renewal's answer shows that the hold had broken.
func TestRelease_RenewalUnderWay_ItsAnswerCounts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		point  string
		forget func(ctx context.Context, r *rig) error
	}{
		"lease": {"PrepareSnapshotBackup.UpdateLease", func(_ context.Context, r *rig) error {
			r.stores[1].DropLease()
			return nil
		}},
		"imports": {"SuspendImportRPC", func(ctx context.Context, r *rig) error {
			_, err := r.tikv.ResumeImport(ctx, r.stores[1].Addr(), "someone")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h := held(t, func(c *hold.Config) { c.Lease, c.Beat = time.Minute, 200*time.Millisecond })
			ctx := within(t, 20*time.Second)
			renewing := make(chan error, 1)
			r.fault(t, fault.Rule{
				Point: fmt.Sprintf("tikv.%d.%s", r.stores[1].ID(), row.point), Position: fault.Slow, Delay: 300 * time.Millisecond,
				Times: 1, Do: func() { renewing <- row.forget(ctx, r) },
			})
			select {
			case err := <-renewing:
				require.NoError(t, err)
			case <-ctx.Done():
				require.Fail(t, "nothing is renewed")
			}
			broke, err := h.Release(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, broke, hold.ErrBroken)
			require.ErrorContains(t, broke, r.stores[1].Addr())
			require.False(t, h.Proven())
			r.requireFree(t)
		})
	}
}
