package gc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/retention"
)

// A report goes once its backup is gone and it is older than asked for, and not before.
func TestCollect_ReportsOfDeletedBackups_GoAfterTheirTime(t *testing.T) {
	t.Parallel()
	keep := Options{Rate: fast, KeepReports: retention.Span{Days: 400}}
	of, limited, dry := keep, keep, keep
	of.Of, limited.Only, dry.DryRun = []cluster.Name{prod}, "x", true
	for name, row := range map[string]struct {
		options Options
		gone    []cluster.RunID
	}{
		"without a limit": {keep, []cluster.RunID{"old"}}, "for ever": {Options{Rate: fast}, nil},
		"of a cluster": {of, nil}, "of a run": {limited, nil}, "a dry run": {dry, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t)
				c := catalog.Catalog{Store: p.deps.Store}
				p.ended(t, "mine", backupOf("y"), "")
				p.cut("mine", "y", "snap-y")
				p.sealAs(t, "y", "mine", "snap-y", time.Now())
				require.NoError(t, c.PutReport(t.Context(), "y", "mine", []byte("{}")))
				require.NoError(t, c.PutReport(t.Context(), "gone", "old", []byte("{}")))
				later(t)
				require.NoError(t, c.PutReport(t.Context(), "gone", "young", []byte("{}")))
				_, err := Collect(t.Context(), p.deps, row.options)
				require.NoError(t, err)
				var gone []cluster.RunID
				for run, backup := range map[cluster.RunID]cluster.BackupID{"mine": "y", "old": "gone", "young": "gone"} {
					if _, _, err := p.deps.Store.Get(t.Context(), manifest.ReportKey(backup, run)); err != nil {
						require.Equal(t, failure.NotFound, failure.KindOf(err))
						gone = append(gone, run)
					}
				}
				require.Equal(t, row.gone, gone)
			})
		})
	}
}
