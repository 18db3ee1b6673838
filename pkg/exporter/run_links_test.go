package exporter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// From a run one gets to its backup and to the other runs of that, and from the backup to those that restored it.
func TestPage_Run_LinksWithItsBackupAndRestores(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	prod, copied, now := cluster.Name{Namespace: "tidb", Name: "prod"}, cluster.Name{Namespace: "tidb", Name: "copy"}, time.Now()
	s.Sealed("b1", prod, "run-b1", now.Add(-time.Hour))
	s.Report(exportertest.Backup("b1", prod, "run-b1", now.Add(-time.Hour), 900, 4))
	s.Report(exportertest.Restore("b1", copied, "run-r1", now.Add(-time.Minute)))
	s.Report(exportertest.Backup("b2", prod, "run-b2", now.Add(-time.Hour), 900, 4))
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	for path, row := range map[string]struct{ links, not []string }{
		"/runs/run-b1": {[]string{`href="/backups/b1"`, `restore <a href="/runs/run-r1"`}, []string{"run-b2"}},
		"/runs/run-r1": {[]string{`href="/backups/b1"`, `backup <a href="/runs/run-b1"`}, []string{"run-b2"}},
		"/runs/run-b2": {[]string{`href="/backups/b2"`}, []string{"run-r1"}},
		"/backups/b1":  {[]string{"restore of b1 to tidb/copy", "backup b1 of tidb/prod"}, []string{"run-b2"}},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			text := get(t, x, path).Body.String()
			for _, link := range row.links {
				assert.Contains(t, text, link)
			}
			for _, other := range row.not {
				assert.NotContains(t, text, other)
			}
		})
	}
}
