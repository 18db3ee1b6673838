package exporter_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A run that ended without releasing its cluster counts for a day, or until a release or another run came after it.
func TestMetrics_ClusterHeld_UntilALaterRunOrRelease(t *testing.T) {
	t.Parallel()
	ended := time.Now().Add(-time.Hour)
	for name, row := range map[string]struct {
		acquired, released time.Time
		held               string
	}{
		"no later run":            {acquired: ended.Add(-time.Minute), held: "1"},
		"released since":          {acquired: ended.Add(-time.Minute), released: ended.Add(time.Minute), held: "0"},
		"released before it":      {acquired: ended.Add(-time.Minute), released: ended.Add(-time.Hour), held: "1"},
		"another run has been by": {acquired: ended.Add(time.Minute), held: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			of := cluster.Name{Namespace: "tidb", Name: "prod"}
			r := exportertest.Failed(of, "r1", ended.Add(-time.Minute))
			r.ErrorKind, r.Finished = failure.Held.String(), ended
			s := exportertest.New(t.Context(), store)
			s.Report(r)
			require.NoError(t, s.Err())
			body, err := json.Marshal(runlock.Record{Cluster: of, Epoch: 1, Nonce: "n", Released: true, AcquiredAt: row.acquired, ReleasedAt: row.released})
			require.NoError(t, err)
			_, err = store.Create(t.Context(), manifest.LockKey(of), body)
			require.NoError(t, err)
			x := exporter.New(store, exporter.Options{})
			require.NoError(t, x.Refresh(t.Context()))
			require.Contains(t, scrape(t, x), `tisnap_cluster_held{cluster="tidb/prod"} `+row.held+"\n")
		})
	}
}
