package journal_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

func (s *interrupted) DeleteVersion(ctx context.Context, key string, old objstore.Version) error {
	if err := s.spend(); err != nil {
		return err
	}
	return s.Store.DeleteVersion(ctx, key, old)
}

// Half a journal would be that of a run that died: it would be continued, and never removed.
func TestRemove_Interrupted_TheJournalIsWholeOrGone(t *testing.T) {
	t.Parallel()
	for _, records := range []int{2, 12} {
		for _, compacted := range []bool{false, true} {
			for changes := range records + 2 {
				t.Run(fmt.Sprint(records, compacted, changes), func(t *testing.T) {
					t.Parallel()
					store, want := ended(t, records)
					if compacted {
						_, err := journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
						require.NoError(t, err)
					}
					err := journal.NewStoreJournal(&interrupted{Store: store, left: changes}, journalPrefix).Remove(t.Context())
					got, readErr := journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
					require.NoError(t, readErr)
					if err != nil {
						require.ErrorIs(t, err, errInterrupted)
						same(t, want, got)
					}
					require.NoError(t, journal.NewStoreJournal(store, journalPrefix).Remove(t.Context()))
					n, _ := objects(t, store)
					require.Zero(t, n)
					require.NoError(t, journal.NewStoreJournal(store, journalPrefix).Remove(t.Context()), "it is gone")
				})
			}
		}
	}
}

func TestRemove_RunHasNotEnded_StaysAsItIs(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	j := journal.NewStoreJournal(store, journalPrefix)
	for seq := 1; seq <= 5; seq++ {
		require.NoError(t, j.Append(t.Context(), phase.Record{Seq: seq, Type: phase.RecordBegin}))
	}
	require.Equal(t, failure.Conflict, failure.KindOf(j.Remove(t.Context())))
	n, _ := objects(t, store)
	require.Equal(t, 5, n)
}
