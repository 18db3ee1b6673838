package crash

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// In a bucket that keeps all that is written for a day in compliance mode, and with a retention of the repository, too,
// archives are made, pruned, and repaired as anywhere, also by commands that are killed: what cannot be deleted is in
// no way.
func TestKilled_UnderObjectLock_NothingIsLostOrInTheWay(t *testing.T) { //nolint:tparallel // the runs share a world
	t.Parallel()
	path, err := shipped.Program()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
	require.NoError(t, err)
	defer w.bed.Close()
	w.bed.S3.LockBucket(testbed.Bucket)
	w.bed.S3.SetObjectLock(testbed.Bucket, "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>")
	retained := []string{"--retention", "2d", "--retention-mode", "compliance"}
	for _, row := range []struct {
		name string
		run  Run
		init []string
	}{
		{"prune by default", ArchivePrune, nil}, {"prune by retention", ArchivePrune, retained},
		{"archive by retention", Archive, retained}, {"repair by retention", ArchiveRepair, retained},
	} {
		t.Run(row.name, func(t *testing.T) {
			w.init = row.init
			w.out.Reset()
			all, made, err := w.undisturbed(ctx, row.run)
			require.NoError(t, err, w.out.String())
			all = slices.DeleteFunc(all, func(c Cell) bool { return !slices.Contains(Killed(), c.Position) })
			for _, cell := range Sample(all, 1, 5) {
				w.out.Reset()
				require.NoError(t, w.try(ctx, cell, made), "%s\n%s", cell, w.out.String())
			}
		})
	}
}
