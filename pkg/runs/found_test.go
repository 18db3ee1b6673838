package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runs"
)

// What is put into one object is as young as that, and its records are not.
func TestAll_CountsRecordsApartFromTheirCompaction(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	wrote(t, store, "b", phase.Record{Type: phase.RecordBegin, Step: "wait"})
	wrote(t, store, "a-1", phase.Record{Type: phase.RecordBegin, Step: "wait"})
	_, err := store.Create(t.Context(), manifest.JournalKey("a", 0), []byte(`{}`))
	require.NoError(t, err)
	_, err = store.Create(t.Context(), manifest.RunPrefix("c")+"other.json", []byte(`{}`))
	require.NoError(t, err)
	found, err := runs.All(t.Context(), store)
	require.NoError(t, err)
	require.Len(t, found, 3, "a folder without a journal is no run")
	for i, want := range []runs.Found{{ID: "a-1", Objects: 2}, {ID: "a", Objects: 1}, {ID: "b", Objects: 2}} {
		require.Equal(t, want.ID, found[i].ID)
		require.Equal(t, want.Objects, found[i].Objects)
		require.WithinDuration(t, time.Now(), found[i].Modified, time.Minute)
		require.Equal(t, want.ID == "a", found[i].Recorded.IsZero(), "of %s only the object of a compaction is left", want.ID)
	}
}
