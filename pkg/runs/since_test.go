package runs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
)

// The time at which wroteAs writes the first record of each journal.
func wroteAt() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func idAt(t *testing.T, at time.Time) cluster.RunID {
	t.Helper()
	id, err := journal.NewRunID(at)
	require.NoError(t, err)
	return id
}

// recentOnly is a storage that is too large to list all its runs or to read old ones.
type recentOnly struct {
	objstore.Store
	t *testing.T
}

func (r recentOnly) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	require.NotEqual(r.t, manifest.RunsPrefix, prefix, "all runs are listed")
	return r.Store.List(ctx, prefix)
}

func (r recentOnly) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	require.False(r.t, strings.HasPrefix(key, manifest.RunsPrefix+"2025"), "the old journal %s is read", key)
	return r.Store.Get(ctx, key)
}

func TestSince_ListsRunsBegunSinceAndThoseWithoutATime(t *testing.T) {
	t.Parallel()
	store, at := objstoretest.NewMemory(nil), wroteAt()
	old, before, then, later := idAt(t, at.AddDate(-1, 0, 0)), idAt(t, at.Add(-time.Second)), idAt(t, at), idAt(t, at.Add(time.Hour))
	for _, id := range []cluster.RunID{old, before, then, later, "nightly"} {
		wrote(t, store, id, phase.Record{Type: phase.RecordBegin, Step: "wait"})
	}
	found, err := runs.Since(t.Context(), recentOnly{store, t}, at)
	require.NoError(t, err)
	var ids []cluster.RunID
	for _, f := range found {
		ids = append(ids, f.ID)
		require.WithinDuration(t, time.Now(), f.Modified, time.Minute)
	}
	require.Equal(t, []cluster.RunID{then, later, "nightly"}, ids)
}

// A restore that died is done once a resolve has finished it, whatever else the storage holds: what is older is not read.
func TestRead_ResolvedSince_IsDone(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]cluster.RunID{
		"by a run whose id was made":   idAt(t, wroteAt().Add(time.Hour)),
		"by a run whose id was chosen": "by-hand",
		"by no run":                    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			restore := idAt(t, wroteAt())
			wrote(t, store, idAt(t, wroteAt().AddDate(0, -3, 0)), phase.Record{Type: phase.RecordEnd})
			wroteAs(t, store, restore, "restore", phase.Record{Type: phase.RecordDone, Step: "lock"})
			if by != "" {
				resolved(t, store, by)
			}
			r, err := runs.Read(t.Context(), recentOnly{store, t}, restore)
			require.NoError(t, err)
			require.Equal(t, by, r.ResolvedBy)
			require.Equal(t, by != "", r.State == runs.Done)
		})
	}
}

// resolved writes the journal of a resolve that began a minute after the others and is done.
func resolved(t *testing.T, store objstore.Store, id cluster.RunID) {
	t.Helper()
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(id))
	about := []byte(`{"operation":"resolve","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v"}`)
	for i, r := range []phase.Record{{Type: phase.RecordRun, Data: about}, {Type: phase.RecordDone, Step: "lock"}, {Type: phase.RecordEnd}} {
		r.Seq, r.Run, r.Time = i+1, id, wroteAt().Add(time.Minute)
		require.NoError(t, j.Append(t.Context(), r))
	}
}

// Each backup and restore asks for the cluster's last run: that one's journal is read, and no listing.
func TestLast_ReadsNoOtherRun(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	hadLock(t, store, "restore", phase.Record{Type: phase.RecordBegin, Step: "recover"})
	noList := listsNothing{recentOnly{store, t}, t}
	last, err := runs.Last(t.Context(), noList, prod)
	require.NoError(t, err)
	require.NotNil(t, last)
	require.Equal(t, runs.Unfinished, last.State)
	lock, _, err := runlock.Read(t.Context(), store, prod)
	require.NoError(t, err)
	require.Equal(t, last.ID, lock.Owner.Run)
}

type listsNothing struct {
	recentOnly
	t *testing.T
}

func (l listsNothing) ListAfter(_ context.Context, prefix, _ string) ([]objstore.Object, error) {
	require.Fail(l.t, "it lists", prefix)
	return nil, nil
}

// gc deletes a journal after it was listed.
func TestCopies_LeavesOutWhatIsGoneOrDamaged(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	for id, operation := range map[cluster.RunID]string{"a": "copy", "b": "copy", "c": "backup", "d": "copy"} {
		wroteAs(t, store, id, operation, phase.Record{Type: phase.RecordEnd})
	}
	second := manifest.JournalPrefix("d") + "000002.json"
	_, version, err := store.Get(t.Context(), second)
	require.NoError(t, err)
	_, err = store.Replace(t.Context(), second, []byte("{"), version)
	require.NoError(t, err)
	found, err := runs.Copies(t.Context(), collected{store, "b"})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.EqualValues(t, "a", found[0].ID)
}

// collected lists a run that is deleted by the time it is read.
type collected struct {
	objstore.Store
	run cluster.RunID
}

func (c collected) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	if prefix != manifest.RunsPrefix {
		return c.Store.List(ctx, prefix)
	}
	found, err := c.Store.List(ctx, prefix)
	for _, o := range found {
		if strings.HasPrefix(o.Key, manifest.RunPrefix(c.run)) {
			_ = c.Delete(ctx, o.Key)
		}
	}
	return found, err
}
