package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

func appendRecord(t *testing.T, store objstore.Store, r phase.Record) {
	t.Helper()
	r.Run, r.Time = "r", time.Date(2026, 1, 1, 0, 0, r.Seq, 0, time.UTC)
	require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix("r")).Append(t.Context(), r))
}

// A run is followed to its end by its journal alone; what it failed with is the command's error.
func TestLogs_FollowsTheJournal(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end     *phase.Record
		kind    failure.Kind
		message string
	}{
		"done":   {end: &phase.Record{Seq: 3, Type: phase.RecordEnd}},
		"failed": {end: &phase.Record{Seq: 3, Type: phase.RecordEnd, Error: "no volume"}, kind: failure.Unknown, message: "no volume"},
		"died":   {kind: failure.Unready, message: "runs abort r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			appendRecord(t, store, phase.Record{Seq: 1, Type: phase.RecordRun, Data: []byte(`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v"}`)})
			appendRecord(t, store, phase.Record{Seq: 2, Type: phase.RecordBegin, Step: "connect"})
			lock, err := runlock.Acquire(t.Context(), store, cluster.Name{Namespace: "tidb", Name: "prod"}, runlock.Owner{Run: "r"}, time.Minute)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out shipped.Output
			ended := make(chan error, 1)
			go func() { ended <- (&runLog{store: store, run: "r"}).print(ctx, &out, true) }()
			require.Eventually(t, func() bool { return strings.Contains(out.String(), "connect") }, 30*time.Second, time.Millisecond)
			if row.end != nil {
				appendRecord(t, store, *row.end)
			}
			require.NoError(t, lock.Release(t.Context()))
			err = <-ended
			require.Equal(t, 1, strings.Count(out.String(), "connect"), "each record once")
			if row.message == "" {
				require.NoError(t, err)
				return
			}
			require.NotContains(t, out.String(), row.message, "the error is printed once")
			require.Equal(t, row.kind, failure.KindOf(err))
			require.Contains(t, err.Error()+failure.HintOf(err), row.message)
		})
	}
}
