package backup_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// countingStore counts the keys that listings have read.
type countingStore struct {
	objstore.Store
	listed, whole atomic.Int64
}

func (c *countingStore) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	found, err := c.Store.List(ctx, prefix)
	c.listed.Add(int64(len(found)))
	if strings.HasPrefix(manifest.RunsPrefix, prefix) {
		c.whole.Add(1)
	}
	return found, err
}

func (c *countingStore) ListAfter(ctx context.Context, prefix, after string) ([]objstore.Object, error) {
	found, err := c.Store.ListAfter(ctx, prefix, after)
	c.listed.Add(int64(len(found)))
	return found, err
}

// years fills a storage with the journals of a run each three hours of a year, of three records each: reading all would
// list nine times what the test allows.
func years(tb testing.TB, store objstore.Store) {
	tb.Helper()
	const runs, records = 3000, 3
	last := time.Now().Add(-48 * time.Hour)
	for i := range runs {
		id, err := journal.NewRunID(last.Add(-time.Duration(i) * 3 * time.Hour))
		require.NoError(tb, err)
		for seq := 1; seq <= records; seq++ {
			_, err := store.Create(tb.Context(), manifest.JournalKey(id, seq), []byte("{}"))
			require.NoError(tb, err)
		}
	}
}

// A storage with the objects of thousands of old runs is no slower to back up into than an empty one, and what a run of
// a moment ago records is found among them, whatever its id.
func TestRun_StorageHasTheJournalsOfAYear_ReadsTheRecentOnesAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	years(t, r.store)
	counts := &countingStore{Store: r.store.Store}
	r.store.Store = counts
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	noted, err := journal.ReadAbout(o.Run, r.journal(t, o)[0])
	require.NoError(t, err)
	require.Equal(t, testbed.Region, noted.Region, "gc looks there for what the run left")
	require.Zero(t, counts.whole.Load(), "all runs were listed")
	require.Less(t, counts.listed.Load(), int64(1000), "keys that listings have read")

	about, err := json.Marshal(journal.About{Operation: journal.Backup, Cluster: o.Cluster})
	require.NoError(t, err)
	made, err := journal.NewRunID(time.Now().Add(-23 * time.Hour)) // it took as long to make its snapshots
	require.NoError(t, err)
	for n, id := range []cluster.RunID{made, "chosen-by-a-person"} {
		earlier := journal.NewStoreJournal(r.store, manifest.JournalPrefix(id))
		at := time.Now().Add(time.Duration(n+1) * time.Minute)
		for i, record := range []phase.Record{
			{Type: phase.RecordRun, Data: about}, {Type: phase.RecordIntent, Step: "cut", Name: journal.IntentCreateSnapshots, Data: json.RawMessage("{}")},
		} {
			record.Seq, record.Time, record.Run = i+1, at, id
			require.NoError(t, earlier.Append(t.Context(), record))
		}
		last, err := backup.LastCut(t.Context(), r.store, o.Cluster, o.Run, time.Now().Add(-15*time.Second))
		require.NoError(t, err)
		require.WithinDuration(t, at, last, 0, id)
	}
}
