package runs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/wait"
)

// ending is a store in which something happens right before the lock is read.
type ending struct {
	objstore.Store
	before func()
}

func (e *ending) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if key == manifest.LockKey(prod) && e.before != nil {
		before := e.before
		e.before = nil
		before()
	}
	return e.Store.Get(ctx, key)
}

// A run ends by the release of its lock and its journal's end, and whoever reads the one before and the other after it
// does not take it for dead: a follower of its log would report that, and a person would continue what is done.
func TestRead_RunEndsMeanwhile_IsNotUnfinished(t *testing.T) {
	t.Parallel()
	locked, last := phase.Record{Type: phase.RecordDone, Step: "lock"}, phase.Record{Type: phase.RecordBegin, Step: "unlock"}
	for name, row := range map[string]struct {
		endAfter time.Duration // since the release
		quiet    time.Duration // between its last record and the read
		want     runs.State
		atMost   time.Duration
	}{
		"its end comes between the two reads":      {endAfter: 0, want: runs.Done, atMost: time.Second},
		"its end comes a moment after the release": {endAfter: time.Second, want: runs.Done, atMost: 2 * time.Second},
		"it died between the two":                  {endAfter: time.Hour, want: runs.Unfinished, atMost: 4 * time.Second},
		"it died between the two, a while ago":     {endAfter: time.Hour, quiet: 5 * time.Minute, want: runs.Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &ending{Store: objstoretest.NewMemory(nil)}
				j := journal.NewStoreJournal(store, manifest.JournalPrefix("r"))
				add := func(seq int, r phase.Record) {
					r.Seq, r.Run, r.Time = seq, "r", time.Now()
					require.NoError(t, j.Append(t.Context(), r))
				}
				add(1, phase.Record{Type: phase.RecordRun, Data: []byte(`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"b"}`)})
				add(2, locked)
				add(3, last)
				lock, err := runlock.Acquire(t.Context(), store, prod, runlock.Owner{Run: "r"}, time.Minute)
				require.NoError(t, err)
				store.before = func() {
					require.NoError(t, lock.Release(t.Context()))
					if row.endAfter == 0 {
						require.NoError(t, runs.End(t.Context(), store, "r", ""))
						return
					}
					timer := time.AfterFunc(row.endAfter, func() { _ = runs.End(t.Context(), store, "r", "") })
					t.Cleanup(func() { timer.Stop() })
				}
				require.NoError(t, wait.For(t.Context(), row.quiet))
				start := time.Now()
				r, err := runs.Read(t.Context(), store, "r")
				require.NoError(t, err)
				require.Equal(t, row.want, r.State)
				require.LessOrEqual(t, time.Since(start), row.atMost)
			})
		})
	}
}
